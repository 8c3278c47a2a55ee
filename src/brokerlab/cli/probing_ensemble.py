"""`brokerlab brokers probe NAME --nodes 3`: what of MQTT crosses between the nodes of an ensemble."""

import time
from dataclasses import dataclass
from pathlib import Path

from brokerlab.cli.terminal import Columns, heading, say, table, warn
from brokerlab.errors import ExitCode, RunError, UserError
from brokerlab.lab.probe.joined import PROPERTIES, Joined, Seen, join_of, look, opened_ensemble
from brokerlab.lab.probe.keeping import failed, told, verdict_of
from brokerlab.record.manifest import Json
from brokerlab.record.probes import keep_probe
from brokerlab.study.ensemble_values import Join
from brokerlab.study.nearest import nearest

_JOINS = (Join.CLUSTER.value, Join.BRIDGE.value)


@dataclass(frozen=True, slots=True)
class Probed:
    """How a probe ended, and what it found, as --json prints it."""

    code: ExitCode
    content: Json


def probe_ensemble(name: str, *, nodes: int, join: str | None, as_json: bool, keep: Path | None = None) -> Probed:
    """What crosses, printed unless it is wanted as JSON; the exit code is 2 where something could not be seen.

    With `keep` it is kept there, and so is why there is no ensemble.
    """
    if join is not None and join not in _JOINS:
        close = nearest(join, _JOINS)
        raise UserError(f"--join {join}: must be cluster or bridge", hint=f"did you mean {close}?" if close else "")
    began = time.monotonic()
    warn(f"probe: starting {nodes} nodes of {name}")
    try:
        with opened_ensemble(name, nodes=nodes, join=join) as joined:
            warn(f"probe: {nodes} nodes are joined; {len(PROPERTIES)} properties on {nodes * (nodes - 1)} ways")
            found = look(joined)
    except RunError as problem:
        if keep is not None:
            how = str(join_of(name, join))
            content = failed(name, problem, nodes=nodes, join=how, seconds=time.monotonic() - began)
            keep_probe(keep, name, how, content)
        raise
    content = told(joined, found, time.monotonic() - began)
    if keep is not None:
        keep_probe(keep, name, str(joined.join), content)
    if not as_json:
        _print(joined, found, content["seconds"])
    is_unknown = any(seen.crosses is None and seen.is_supported for ways in found.values() for seen in ways)
    return Probed(ExitCode.UNKNOWN if is_unknown else ExitCode.VALID, content)


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
