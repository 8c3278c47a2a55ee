"""`brokerlab brokers`: the brokers that can be measured here, what each can do, and whether it keeps to MQTT."""

from collections.abc import Iterable
from json import dumps
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from brokerlab.brokers.base import Broker, Counts, Found
from brokerlab.brokers.registry import DRIVERS, driver
from brokerlab.cli.installing import install, remove
from brokerlab.cli.probing import probe
from brokerlab.cli.terminal import Columns, say, table

JsonOption = Annotated[bool, typer.Option("--json", help="The same as JSON.")]
_ONE = "show"  # the command that stands behind a name


class _ByName(TyperGroup):
    """A word that is no command is the name of a broker."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        known = args and (args[0] in self.commands or args[0].startswith("-"))
        return super().resolve_command(ctx, args if known else [_ONE, *args])


app = typer.Typer(
    cls=_ByName,
    help="List the brokers and what each can do, probe one, install or remove some.",
    invoke_without_command=True,
    rich_markup_mode=None,
    subcommand_metavar="[NAME] | probe NAME|ADDRESS | install NAME... | remove NAME...",
)
app.command("probe")(probe)
app.command("install")(install)
app.command("remove")(remove)


@app.callback()
def brokers(context: typer.Context, json: JsonOption = False) -> None:
    """List the brokers that brokerlab can start, what each can do, and where it was found or how to get it.

    `brokers NAME` shows one of them, `brokers probe NAME|ADDRESS` holds one against the specification of MQTT.
    """
    if context.invoked_subcommand is None:
        _tell(DRIVERS.values(), as_json=json)


@app.command(_ONE, hidden=True)
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A broker.")],
    json: JsonOption = False,
) -> None:
    """Show one broker."""
    _tell([driver(name)], as_json=json)


def _tell(listed: Iterable[Broker], *, as_json: bool) -> None:
    described = [_described(broker) for broker in listed]
    if as_json:
        say(dumps(described, indent=2))
        return
    headings = (
        "broker",
        "version",
        "QoS",
        "MQTT",
        "transports",
        "users",
        "presets",
        "own counters",
        "scalable",
        "where, or how to get it",
    )
    rows = [
        (
            each["name"],
            each["version"] or "missing",
            ", ".join(map(str, each["qos"])),
            ", ".join(each["protocols"]),
            ", ".join(each["transports"]),
            "yes" if each["has_credentials"] else "no",
            ", ".join(each["presets"]),
            "yes" if each["has_counters"] else "no",
            "yes" if each["is_scalable"] else "no",
            each["program"] or each["how_to_get"],
        )
        for each in described
    ]
    table(Columns(headings), rows)


def _described(broker: Broker) -> dict[str, Any]:
    found, abilities = broker.find(), broker.abilities
    is_here = isinstance(found, Found)
    return {
        "name": broker.name,
        "is_found": is_here,
        "version": found.version if isinstance(found, Found) else None,
        "program": found.program if isinstance(found, Found) else None,
        "how_to_get": None if isinstance(found, Found) else found.hint,
        "qos": [int(qos) for qos in abilities.qos],
        "protocols": list(abilities.protocols),
        "transports": [str(transport) for transport in abilities.transports],
        "has_credentials": abilities.has_credentials,
        "has_client_certificates": abilities.has_client_certificates,
        "presets": list(abilities.presets),
        "options": list(abilities.options),
        "has_counters": isinstance(broker, Counts),
        "is_scalable": abilities.is_scalable,
    }
