"""The result of a study on the terminal, and the exit code that follows from it.

Reads the tables as the report does; computes nothing.
"""

from brokerlab.cli.terminal import Columns, heading, is_terminal, say, table
from brokerlab.errors import ExitCode
from brokerlab.record.directory import StudyDirectory
from brokerlab.report.answer import answer
from brokerlab.report.cells import CellResult, Group, groups, varying_factors
from brokerlab.report.contract import contract_of
from brokerlab.report.results import Results, read_results

_NOT_KNOWN = "-"
_METRICS = {
    "p50 ms": "latency.p50",
    "p99 ms": "latency.p99",
    "delivered/s": "throughput.delivered_per_s",
    "lost %": "delivery.failure_percent",
    "broker CPU %": "resources.broker_cpu_percent",
}
_WITH_INTERVAL = "p99 ms"


def print_outcome(directory: StudyDirectory) -> ExitCode:
    """Prints the table of cells, the runs that do not count and the answer; returns the study's exit code."""
    results = read_results(directory)
    compared = groups(results)
    _print_cells(results, compared)
    _print_rejected(results)
    heading(results.study.question)
    say(answer(results, compared).lead)
    return exit_code(results)


def exit_code(results: Results) -> ExitCode:
    """A run that is not valid or a broken contract is a failed check; an undecided contract is unknown."""
    contracts = {row["verdict"] for row in results.delivery if row["run_id"] in results.valid_runs}
    if len(results.valid_runs) < len(results.runs) or "broken" in contracts:
        return ExitCode.CHECK_FAILED
    return ExitCode.UNKNOWN if "unknown" in contracts or not results.runs else ExitCode.VALID


def _print_cells(results: Results, compared: list[Group]) -> None:
    factors = varying_factors(results)
    numbers = (*_METRICS, f"p99, {results.confidence_percent:g} % interval")
    headings = (*factors, "broker", *numbers, "contract", "valid runs")
    rows = [_cell_row(cell, results) for group in compared for cell in group.cells]
    table(Columns(headings, right=frozenset(numbers)), rows)


def _cell_row(cell: CellResult, results: Results) -> list[str]:
    values = [cell.estimates[name].mean_text if name in cell.estimates else _NOT_KNOWN for name in _METRICS.values()]
    p99 = cell.estimates.get(_METRICS[_WITH_INTERVAL])
    interval = p99.interval_text if p99 else _NOT_KNOWN
    levels = [value for _, value in cell.levels]
    contract = contract_of(cell, results)
    return [*levels, cell.broker, *values, interval, contract.verdict_text, f"{cell.valid_runs}/{len(cell.runs)}"]


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


def _reasons(row: dict[str, object]) -> tuple[str, str, str]:
    reasons = row["reasons"]
    listed = [str(reason) for reason in reasons] if isinstance(reasons, list) else []
    return str(row["run_id"]), str(row["verdict"]), "; ".join(listed) or "no reason was given"
