"""The result of a study on the terminal, and the exit code that follows from it.

Reads the tables as the report does; computes nothing.
"""

from collections.abc import Sequence

from brokerlab.cli.terminal import Columns, heading, is_terminal, say, table
from brokerlab.errors import ExitCode
from brokerlab.record.directory import StudyDirectory
from brokerlab.record.reasons import in_short
from brokerlab.report.answer import answer
from brokerlab.report.cells import CellResult, Group, groups, level_value, varying_factors
from brokerlab.report.contract import contract_of
from brokerlab.report.metrics import Estimate
from brokerlab.report.numbers import NOT_KNOWN, is_coarse, listed
from brokerlab.report.results import Results, Row, read_results

_METRICS = {
    "p50 ms": "latency.p50",
    "p99 ms": "latency.p99",
    "delivered/s": "throughput.delivered_per_s",
    "lost %": "delivery.failure_percent",
    "broker CPU %": "resources.broker_cpu_percent",
}


def print_outcome(directory: StudyDirectory) -> ExitCode:
    """Prints the table of cells, the runs that do not count and the answer; returns the study's exit code."""
    results = read_results(directory)
    compared = groups(results)
    _print_cells(results, compared)
    _print_rejected(results)
    heading(results.study.question)
    found = answer(results, compared)
    say(found.lead)
    if found.floor:
        say(found.floor)
    return exit_code(results.runs, results.delivery)


def exit_code(runs: Sequence[Row], delivery: Sequence[Row]) -> ExitCode:
    """A run that is not valid or a broken contract is a failed check; an undecided contract is unknown.

    A run that was cut off and then made again fails nothing: what was asked for is there.
    """
    verdicts = {row["run_id"]: row["verdict"] for row in runs}
    counting = {run_id: verdict for run_id, verdict in verdicts.items() if _made_again_as(run_id) not in verdicts}
    contracts = {row["verdict"] for row in delivery if row["run_id"] in counting}
    if set(counting.values()) - {"valid"} or "broken" in contracts:
        return ExitCode.CHECK_FAILED
    return ExitCode.UNKNOWN if "unknown" in contracts or not counting else ExitCode.VALID


def _made_again_as(run_id: str) -> str | None:
    """The run that took the place of one that was set aside (record/directory.py)."""
    original, is_aside, _ = run_id.rpartition(".cut-")
    return original if is_aside else None


def _print_cells(results: Results, compared: list[Group]) -> None:
    factors = varying_factors(results)
    ranked = f"{results.study.rank_by}, {results.confidence_percent:g} % interval"
    titles = (*_METRICS, ranked)
    rows = [_cell_row(cell, results) for group in compared for cell in group.cells]
    say()
    who = ("broker", "version", "preset", "granted")
    table(Columns((*factors, *who, *titles, "contract", "valid runs"), right=frozenset(titles)), rows)
    for line in _exactness(compared):
        say(line)


def _exactness(compared: list[Group]) -> list[str]:
    """What marks in the table mean, where there are some; of which brokers nobody knows how exact their times are."""
    cells = [cell for group in compared for cell in group.cells]
    times = [
        (cell, estimate) for cell in cells for name in _METRICS.values()
        if (estimate := cell.estimates.get(name)) and estimate.metric.is_time
    ]  # fmt: skip
    lines = []
    if any(is_coarse(estimate.mean, estimate.resolution) for _, estimate in times):
        lines.append("≤: arrivals are known so coarsely that the latency may be anything up to this")
    if untold := sorted({cell.broker for cell, estimate in times if estimate.resolution is None}):
        lines.append(f"how exact the times of {listed(untold)} are is not known")
    return lines


def _cell_row(cell: CellResult, results: Results) -> list[str]:
    levels = [level_value(name, value) for name, value in cell.levels]
    values = [_mean(cell.estimates.get(metric)) for metric in _METRICS.values()]
    ranked = cell.estimates.get(results.study.rank_by)
    interval = ranked.interval_text if ranked else NOT_KNOWN
    contract = contract_of(cell, results)
    granted = NOT_KNOWN if contract.granted_qos is None else f"QoS {contract.granted_qos}"
    verdict = contract.verdict or NOT_KNOWN
    who = (cell.broker, cell.version, cell.preset, granted)
    return [*levels, *who, *values, interval, verdict, f"{cell.valid_runs}/{len(cell.runs)}"]


def _mean(estimate: Estimate | None) -> str:
    return estimate.mean_text if estimate else NOT_KNOWN


def _print_rejected(results: Results) -> None:
    rejected = [row for row in results.runs if row["verdict"] != "valid"]
    if not rejected:
        return
    heading(f"{len(rejected)} of {len(results.runs)} runs do not count")
    if is_terminal():
        table(Columns(("run", "verdict", "reasons")), [_reasons(row) for row in rejected])
        return
    for run, verdict, reasons in map(_reasons, rejected):
        say(f"{run}: {verdict}: {reasons}")


def _reasons(row: Row) -> tuple[str, str, str]:
    reasons = row["reasons"]
    listed = [str(reason) for reason in reasons] if isinstance(reasons, list) else []
    return str(row["run_id"]), str(row["verdict"]), in_short(listed) or "no reason was given"
