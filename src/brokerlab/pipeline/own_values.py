"""Numbers of a study of ours under the names and circumstances of the papers, for claims to be held against.

Beside the means of cells: what an ensemble of nodes says between its sites, what it uses, and what collapsed.
    run, seconds D of all phases:   control        = what came in per idle second
                                    subscriptions  = bits above that while clients connected and subscribed, over D
                                    publications   = bits above that while messages flowed, over D
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from brokerlab.pipeline.beside import our_rows
from brokerlab.pipeline.manifests import read_runs
from brokerlab.pipeline.tables import read_table
from brokerlab.published.values import Value
from brokerlab.record.directory import StudyDirectory
from brokerlab.record.manifest import Json
from brokerlab.study.ensemble_values import Join
from brokerlab.study.factors import FACTORS
from brokerlab.study.quantity import milliseconds_text, per_s_text, percent_text

Row = Mapping[str, Any]
_KINDS_OF_TRAFFIC = {
    "connect": "subscriptions", "subscribe": "subscriptions",
    "warmup": "publications", "measure": "publications", "drain": "publications",
}  # fmt: skip
_STEADY = ("idle", "measure")  # long enough to be sampled


def own_values(studies: Sequence[StudyDirectory]) -> list[Value]:
    """Values of all cells of these studies; every one carries the levels of its cell."""
    return [value for results in studies for value in _values_of(results)]


def name_of(studies: Sequence[StudyDirectory]) -> str:
    return ", ".join(results.path.resolve().name for results in studies)


def varying(values: Iterable[Value]) -> tuple[str, ...]:
    """Levels in which the cells differ, but for those that a claim names itself: broker, QoS, environment and phase."""
    seen: dict[str, set[str]] = {}
    for value in values:
        for name, level in value.levels:
            seen.setdefault(name, set()).add(level)
    itself = ("broker", "qos", "environment", "phase")
    return tuple(name for name, levels in seen.items() if len(levels) > 1 and name not in itself)


def _values_of(results: StudyDirectory) -> Iterator[Value]:
    study = name_of([results])
    cells = _cells(results)
    for row in our_rows(results):
        if row["cell"] in cells:
            yield _value(study, cells[row["cell"]], row["metric"], row["our_value"], statistic=row["our_statistic"])
    overhead, resources = (_by_cell(results, name) for name in ("overhead", "resources"))
    for cell, about in cells.items():
        if about["collapsed"]:
            yield _value(study, about, "collapsed", fmean(about["collapsed"]))
        counted = [row for row in overhead.get(cell, ()) if row["run_id"] in about["valid"]]
        used = [row for row in resources.get(cell, ()) if row["run_id"] in about["valid"]]
        for metric, phase, several in (*_traffic(counted), *_use(used)):
            yield _value(study, about, metric, fmean(several), phase=phase)


def _by_cell(results: StudyDirectory, table: str) -> dict[str, list[Row]]:
    """The rows of a table that a study may not have."""
    rows: dict[str, list[Row]] = {}
    for row in read_table(results, table).to_pylist() if results.table(table).is_dir() else ():
        rows.setdefault(row["cell"], []).append(row)
    return rows


def _value(
    study: str, about: Row, metric: str, number: float, *, statistic: str | None = None, phase: str | None = None
) -> Value:
    levels = about["levels"] | ({} if phase is None else {"phase": phase})
    return Value(
        source=study,
        broker=levels["broker"],
        printed_broker=about["name"],
        version=about["version"],
        qos=levels.get("qos"),
        environment=levels.get("environment"),
        kind=None,
        interval_ms=None,
        statistic=statistic,
        variant=None,
        feature=None,
        outcome=None,
        metric=metric,
        value=number,
        bound="",
        printed=f"{number:g}",
        unit="",
        note="",
        levels=tuple(levels.items()),
    )


# -- levels -----------------------------------------------------------------------------------------------------------


def _cells(results: StudyDirectory) -> dict[str, dict[str, Any]]:
    """By cell: its levels, which of its runs are valid, and of those and the others of the broker's which collapsed."""
    cells: dict[str, dict[str, Any]] = {}
    for run in read_runs(results)[0]:
        row = run.row
        if (row["driver"] or row["broker"]) is None:  # cut off before there was a broker
            continue
        levels = _levels(run.directory.manifest(), row)
        about = cells.setdefault(
            row["cell"],
            {"name": row["broker"], "version": row["version"], "levels": levels, "valid": set(), "collapsed": []},
        )
        if row["verdict"] == "valid":
            about["valid"].add(run.run_id)
        if row["verdict"] in ("valid", "collapsed"):  # an invalid run says nothing of the broker
            about["collapsed"].append(float(row["verdict"] == "collapsed"))
    return cells


def _levels(manifest: Json, row: Row) -> dict[str, str]:
    """The circumstances of a cell as a study file writes them, also those that its study does not vary."""
    fixed = {"broker": str(row["driver"] or row["broker"]).split("@", maxsplit=1)[0], "role": row["role"]}
    if row["qos"] is not None:
        fixed["qos"] = str(row["qos"])
    if row["rate_per_s"] is not None:
        fixed["rate"] = per_s_text(row["rate_per_s"])
    join = manifest.get("broker", {}).get("join")
    if join in (Join.CLUSTER, Join.BRIDGE):
        fixed["join"] = join
        fixed["locality"] = percent_text(manifest["placement"]["local_percent"])
    between = manifest.get("network", {}).get("topology", {}).get("between")
    if between is not None:
        fixed["rtt"] = milliseconds_text(between["there"]["delay_ms"] + between["back"]["delay_ms"])
    varied = {name: level for name, level in manifest.get("run", {}).get("levels", {}).items() if name != "broker"}
    return fixed | {name: _written(name, level) for name, level in varied.items()}


def _written(name: str, level: Any) -> str:
    return str(FACTORS[name].written(level)) if name in FACTORS else str(level)


# -- ensembles --------------------------------------------------------------------------------------------------------


def _traffic(overhead: Sequence[Row]) -> Iterator[tuple[str, str | None, list[float]]]:
    """Kilobits per second between sites by kind, and their shares in percent; one number for each run."""
    by_run: dict[str, list[Row]] = {}
    for row in overhead:
        if row["is_between_sites"]:
            by_run.setdefault(row["run_id"], []).append(row)
    kinds = [kinds for rows in by_run.values() if (kinds := traffic_kinds(rows)) is not None]
    if not kinds:
        return
    yield "inter_broker_traffic", None, [sum(each.values()) for each in kinds]
    for kind in kinds[0]:
        yield "inter_broker_traffic_of", kind, [each[kind] for each in kinds]
    shares = [each for each in kinds if sum(each.values()) > 0]
    if shares:
        yield "control_communication_share", None, [100 * each["control"] / sum(each.values()) for each in shares]
        yield "publish_exchange_share", None, [100 * each["publications"] / sum(each.values()) for each in shares]


def traffic_kinds(rows: Sequence[Row]) -> dict[str, float] | None:
    """Kilobits per second of one run by kind; None where the ensemble was never left idle."""
    counted = ("idle", *_KINDS_OF_TRAFFIC)
    seconds = {row["phase"]: row["seconds"] for row in rows if row["phase"] in counted}
    if "idle" not in seconds:
        return None
    whole_s = sum(seconds.values())
    idle = sum(row["bits_per_s"] for row in rows if row["phase"] == "idle")
    kinds = {"control": idle / 1000, "subscriptions": 0.0, "publications": 0.0}
    for row in rows:
        if row["phase"] in _KINDS_OF_TRAFFIC:
            above = row["above_idle_bits_per_s"] * row["seconds"]
            kinds[_KINDS_OF_TRAFFIC[row["phase"]]] += above / whole_s / 1000
    return {kind: max(kbits, 0.0) for kind, kbits in kinds.items()}  # an idle second that was busier than the mean


def _use(resources: Sequence[Row]) -> Iterator[tuple[str, str | None, list[float]]]:
    """CPU and memory of all nodes together, and of bridges of ours among them, by phase; one number for each run."""
    rows = [row for row in resources if row["node"].startswith("broker/")]
    for metric, column in (("ensemble_cpu", "cpu_percent"), ("ensemble_memory", "rss_mean_mib")):
        for phase in _STEADY:
            totals: dict[str, float] = {}
            for row in rows:
                if row["phase"] == phase and row[column] is not None:
                    totals[row["run_id"]] = totals.get(row["run_id"], 0.0) + row[column]
            if totals:
                yield metric, phase, list(totals.values())
