"""`brokerlab brokers`: the brokers that can be measured here, what each can do, and whether it keeps to MQTT."""

from json import dumps
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from brokerlab.brokers.base import Broker, Counts, CountsOnPage, Found
from brokerlab.brokers.registry import DRIVERS, driver
from brokerlab.cli.installing import install, remove
from brokerlab.cli.probing import probe
from brokerlab.cli.terminal import Columns, say, wide_table

JsonOption = Annotated[bool, typer.Option("--json", help="The same as JSON.")]
_ONE = "show"  # the command that stands behind a name

_COLUMNS = {
    "broker": "name",
    "version": "version",
    "QoS": "qos",
    "MQTT": "protocols",
    "TLS": "has_tls",
    "ws": "has_websocket",
    "users": "has_credentials",
    "permissions": "has_permissions",
    "shared": "has_shared_subscriptions",
    "cluster": "has_clusters",
    "bridge": "has_bridges",
    "counters": "counters",
    "scalable": "is_scalable",
    "departs": "departures",
    "licence": "licence",
    "where, or how to get it": "whereabouts",
}
_OF_ONE = {
    "broker": "name",
    "version": "version",
    "where": "program",
    "how to get it": "how_to_get",
    "licence": "licence",
    "QoS": "qos",
    "MQTT": "protocols",
    "transports": "transports",
    "user names": "has_credentials",
    "client certificates": "has_client_certificates",
    "topic permissions": "has_permissions",
    "shared subscriptions": "has_shared_subscriptions",
    "clusters": "has_clusters",
    "bridges": "has_bridges",
    "counters": "counters",
    "scalable": "is_scalable",
    "presets": "presets",
    "options": "options",
    "departs from MQTT": "departs",
}


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
    subcommand_metavar="[NAME] | probe NAME|ADDRESS... | install NAME... | remove NAME...",
)
app.command("probe")(probe)
app.command("install")(install)
app.command("remove")(remove)


@app.callback()
def brokers(context: typer.Context, json: JsonOption = False) -> None:
    """List the brokers that brokerlab can start, what each can do, and where it was found or how to get it.

    `brokers NAME` shows one of them, `brokers probe NAME|ADDRESS...` holds them against the specification of MQTT.
    """
    if context.invoked_subcommand is None:
        described = [_described(broker) for broker in DRIVERS.values()]
        if json:
            say(dumps(described, indent=2))
        else:
            wide_table(
                Columns(tuple(_COLUMNS)), [[_text(each[key]) for key in _COLUMNS.values()] for each in described]
            )


@app.command(_ONE, hidden=True)
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A broker.")],
    json: JsonOption = False,
) -> None:
    """Show one broker."""
    told = _described(driver(name))
    if json:
        say(dumps([told], indent=2))
        return
    width = max(map(len, _OF_ONE))
    for heading, key in _OF_ONE.items():
        if told[key] is not None:
            say(f"{heading.ljust(width)}  {_text(told[key])}")


def _text(told: object) -> str:
    match told:
        case None:
            return "missing"
        case bool():
            return "yes" if told else "no"
        case list():
            texts = list(map(str, told))
            return ("; " if any(" " in each for each in texts) else ", ").join(texts) or "-"
        case _:
            return str(told) or "-"


def _described(broker: Broker) -> dict[str, Any]:
    """All that is known of a broker, as --json prints it."""
    found, abilities = broker.find(), broker.abilities
    here = found if isinstance(found, Found) else None
    how = None if isinstance(found, Found) else found.hint
    return {
        "name": broker.name,
        "is_found": here is not None,
        "version": here.version if here else None,
        "program": here.program if here else None,
        "how_to_get": how,
        "whereabouts": here.program if here else how,
        "source": type(broker.source).__name__,
        "licence": abilities.licence,
        "qos": [int(qos) for qos in abilities.qos],
        "protocols": list(abilities.protocols),
        "transports": [str(transport) for transport in abilities.transports],
        "has_tls": any(transport.is_encrypted for transport in abilities.transports),
        "has_websocket": any(transport.is_framed for transport in abilities.transports),
        "has_credentials": abilities.has_credentials,
        "has_client_certificates": abilities.has_client_certificates,
        "has_permissions": abilities.has_permissions,
        "has_shared_subscriptions": abilities.has_shared_subscriptions,
        "has_clusters": abilities.has_clusters,
        "has_bridges": abilities.has_bridges,
        "has_counters": isinstance(broker, Counts),
        "counters": _counters(broker),
        "is_scalable": abilities.is_scalable,
        "presets": list(abilities.presets),
        "options": list(abilities.options),
        "departs": [str(each) for each in abilities.departs],
        "departures": len(abilities.departs),
    }


def _counters(broker: Broker) -> str:
    """Where it tells them."""
    if not isinstance(broker, Counts):
        return "no"
    return "page" if isinstance(broker, CountsOnPage) else "topics"
