"""`brokerlab bridge`: joins two brokers, in the foreground, until it is told to stop."""

from pathlib import Path
from typing import Annotated

import typer

from brokerlab.bridge.counters import Counters, table_rows
from brokerlab.bridge.file import read_bridge
from brokerlab.bridge.values import Bridge
from brokerlab.cli.terminal import Columns, say, table, warn


def bridge(
    config: Annotated[Path, typer.Argument(help="The bridge file (docs/bridge.md).")],
    check: Annotated[bool, typer.Option("--check", help="Read the file and start nothing.")] = False,
    within: Annotated[
        float | None, typer.Option("--within", min=0.1, help="Give up when not joined after so many seconds.")
    ] = None,
) -> None:
    """Join two brokers: subscribe, transform, republish.

    A message is acknowledged to the one broker after the other has acknowledged it, so at QoS 1 and 2 none is lost,
    whatever stops the bridge. SIGTERM and Ctrl-C end it cleanly, with a table of what passed.
    """
    found = read_bridge(config)
    if check:
        _print_routes(found)
        return
    from brokerlab.bridge.program import Program  # noqa: PLC0415 - compiles; --check and --help do without

    program = Program(found, say=warn, announce=say)
    _print_counters(program.run(within_s=within))


def _print_routes(bridge: Bridge) -> None:
    table(
        Columns(("route", "from", "to", "topics", "QoS", "workers"), right=frozenset(("QoS", "workers"))),
        [
            (
                route.name,
                f"{route.source} ({bridge.brokers[route.source].address})",
                f"{route.target} ({bridge.brokers[route.target].address})",
                ", ".join(route.filters),
                str(route.qos),
                str(route.workers),
            )
            for route in bridge.routes
        ],
    )


def _print_counters(counters: list[Counters]) -> None:
    names = tuple(each.route for each in counters)
    table(Columns(("messages", *names), right=frozenset(names)), table_rows(counters))
