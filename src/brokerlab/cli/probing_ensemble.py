"""`brokerlab brokers probe NAME --nodes 3`: what of MQTT crosses between the nodes of an ensemble."""

import time
from collections.abc import Sequence
from json import dumps
from typing import Any

from brokerlab.cli.terminal import Columns, heading, say, table, warn
from brokerlab.errors import ExitCode, UserError
from brokerlab.lab.probe.joined import PROPERTIES, Joined, Seen, look, opened_ensemble
from brokerlab.study.ensemble_values import Join
from brokerlab.study.nearest import nearest

_JOINS = (Join.CLUSTER.value, Join.BRIDGE.value)


def probe_ensemble(name: str, *, nodes: int, join: str | None, as_json: bool) -> ExitCode:
    """Prints what crosses; the exit code is 2 where something could not be seen."""
    if join is not None and join not in _JOINS:
        close = nearest(join, _JOINS)
        raise UserError(f"--join {join}: must be cluster or bridge", hint=f"did you mean {close}?" if close else "")
    began = time.monotonic()
    warn(f"probe: starting {nodes} nodes of {name}")
    with opened_ensemble(name, nodes=nodes, join=join) as joined:
        warn(f"probe: {nodes} nodes are joined; {len(PROPERTIES)} properties on {nodes * (nodes - 1)} ways")
        found = look(joined)
    seconds = time.monotonic() - began
    if as_json:
        say(dumps(_as_json(joined, found, seconds), indent=2))
    else:
        _print(joined, found, seconds)
    is_unknown = any(seen.crosses is None and seen.is_supported for ways in found.values() for seen in ways)
    return ExitCode.UNKNOWN if is_unknown else ExitCode.VALID


def verdict_of(ways: Sequence[Seen]) -> str:
    """In a few words for all ways together."""
    crossing, known = sum(seen.crosses is True for seen in ways), sum(seen.crosses is not None for seen in ways)
    if not known:
        return "unknown" if any(seen.is_supported for seen in ways) else "not supported"
    if crossing == known:
        return "crosses"
    return "does not cross" if not crossing else f"crosses on {crossing} of {known} ways"


def _print(joined: Joined, found: dict[str, list[Seen]], seconds: float) -> None:
    nodes, crossed = len(joined.places), joined.crossed
    bridges = f" along {', '.join(f'{one}-{other}' for one, other in joined.pairs)}" if joined.pairs else ""
    heading(f"{joined.name} {joined.version}: {nodes} nodes, {joined.join}{bridges}")
    levels = ", ".join(map(str, crossed.qos))
    rows = [("messages", "what is published at one node is delivered at every other", f"crosses at QoS {levels}")]
    rows += [(each.id, each.title, verdict_of(found[each.id])) for each in PROPERTIES]
    table(Columns(("what", "what crosses or not", "seen")), rows)
    heading("What was seen")
    if crossed.lowered:
        texts = [f"{one}-{other} QoS {asked} at {got}" for one, other, asked, got in crossed.lowered]
        say(f"messages: delivered at a lower QoS than published: {'; '.join(texts)}")
    for each in PROPERTIES:
        for what in dict.fromkeys(seen.what for seen in found[each.id]):
            ways = [f"{seen.start}-{seen.end}" for seen in found[each.id] if seen.what == what]
            where = "on all ways" if len(ways) == len(found[each.id]) else f"from {', '.join(ways)}"
            say(f"{each.id}: {what}, {where}")
    say()
    say(f"{crossed.ways} ways proved in {crossed.seconds:.1f} s; all in {seconds:.1f} s")


def _as_json(joined: Joined, found: dict[str, list[Seen]], seconds: float) -> dict[str, Any]:
    return {
        "broker": joined.name,
        "version": joined.version,
        "nodes": len(joined.places),
        "join": str(joined.join),
        "bridges": [list(pair) for pair in joined.pairs],
        "messages": joined.crossed.section(),
        "properties": [
            {
                "id": each.id,
                "title": each.title,
                "seen": verdict_of(found[each.id]),
                "ways": [
                    {"from": seen.start, "to": seen.end, "crosses": seen.crosses, "what": seen.what}
                    for seen in found[each.id]
                ],
            }
            for each in PROPERTIES
        ],
        "seconds": round(seconds, 3),
    }
