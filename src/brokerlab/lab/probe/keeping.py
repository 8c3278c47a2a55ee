"""The probe of an ensemble as a value that is kept: what crosses between its nodes, or why there is no ensemble."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from brokerlab.brokers.base import Found, RunsElsewhere
from brokerlab.brokers.registry import driver
from brokerlab.errors import RunError
from brokerlab.lab.probe.joined import PROPERTIES, Joined, Seen, look, opened_ensemble
from brokerlab.record.manifest import Json
from brokerlab.record.probes import keep_probe, kept
from brokerlab.study.ensemble_values import Join
from brokerlab.study.plan import Cell


def verdict_of(ways: Sequence[Seen]) -> str:
    """In a few words for all ways together."""
    crossing, known = sum(seen.crosses is True for seen in ways), sum(seen.crosses is not None for seen in ways)
    if not known:
        return "unknown" if any(seen.is_supported for seen in ways) else "not supported"
    if crossing == known:
        return "crosses"
    return "does not cross" if not crossing else f"crosses on {crossing} of {known} ways"


def told(joined: Joined, found: dict[str, list[Seen]], seconds: float) -> Json:
    """What was seen, with everything that was seen of each way."""
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


def ensembles_of(cells: Sequence[Cell]) -> list[tuple[str, Join, int]]:
    """(driver, how it is joined, number of nodes) of the ensembles that are started here and of one driver alone.

    Where a study has several sizes, the smallest: what crosses from node to node shows there.
    """
    found: dict[tuple[str, Join], int] = {}
    for cell in cells:
        names = {choice.driver for choice in cell.choices}
        if cell.ensemble.join is not Join.NONE and len(names) == 1:
            key = (names.pop(), cell.ensemble.join)
            found[key] = min(cell.ensemble.nodes, found.get(key, cell.ensemble.nodes))
    return [(name, join, nodes) for (name, join), nodes in found.items() if not isinstance(driver(name), RunsElsewhere)]


def keep_ensembles(folder: Path, cells: Sequence[Cell], *, before: Callable[[str, Join, int], None]) -> list[Path]:
    """Probes every ensemble of these cells that has no kept probe yet; the files.

    One that cannot be joined is no reason not to measure: its probe says so, and its runs will.
    """
    paths = []
    for name, join, nodes in ensembles_of(cells):
        if kept(folder, name, join.value).exists():
            continue
        before(name, join, nodes)
        paths.append(keep_probe(folder, name, join.value, _probed(name, nodes=nodes, join=join)))
    return paths


def _probed(name: str, *, nodes: int, join: Join) -> Json:
    began = time.monotonic()
    try:
        with opened_ensemble(name, nodes=nodes, join=join.value) as joined:
            found = look(joined)
    except RunError as problem:
        return failed(name, problem, nodes=nodes, join=join.value, seconds=time.monotonic() - began)
    return told(joined, found, time.monotonic() - began)


def failed(name: str, problem: RunError, *, nodes: int, join: str, seconds: float) -> Json:
    """Of nodes that did not join, or failed while they were probed."""
    found = driver(name).find()
    version = found.version if isinstance(found, Found) else None
    about = {"broker": name, "version": version, "nodes": nodes, "join": join}
    return {**about, "failed": problem.message, "seconds": round(seconds, 3)}
