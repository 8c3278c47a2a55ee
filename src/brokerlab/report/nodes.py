"""The broker's node: what it was held to, what that did to it, and how many threads and files it had."""

from collections.abc import Iterable

from brokerlab.record.manifest import Json
from brokerlab.report.cells import CellResult, Group, level_value, varying_factors
from brokerlab.report.numbers import NOT_KNOWN, brief, count, known, significant
from brokerlab.report.overview import factor_columns
from brokerlab.report.results import Results, Row
from brokerlab.report.table import Entry, Table, number, text
from brokerlab.study.quantity import bytes_text

_ENERGY = number("Energy", "mJ per delivery, whole machine")
_LIMITS = (text("Limits"), text("Out of CPU time", "most, of periods of 100 ms"), number("Killed for memory"))


def nodes(results: Results, compared: list[Group]) -> Table:
    """One row per cell, with the largest values over its runs; columns of limits only where there are some."""
    has_limits = any("limits" in manifest for manifest in results.manifests.values())
    columns = (
        text("Broker"),
        *factor_columns(varying_factors(results)),
        *(_LIMITS if has_limits else ()),
        number("Threads"),
        number("Open files"),
        *((_ENERGY,) if (energy := _energy(results)) else ()),
    )
    used = [row for row in results.resources if row["node"].startswith("broker/") and row["phase"] == "measure"]
    blocks = tuple(
        tuple((*_row(cell, results, used, has_limits), *_energy_entry(cell, energy)) for cell in group.cells)
        for group in compared
    )
    is_known = has_limits or bool(energy) or any(row.get("threads_max") is not None for row in used)
    return Table(columns, blocks if is_known else ())


def _energy(results: Results) -> dict[str, float]:
    """By run, where the machine counts energy (F-16)."""
    rows = (row for row in results.throughput if row["window"] == "delivery")
    return {row["run_id"]: value for row in rows if (value := known(row.get("millijoules_per_delivery"))) is not None}


def _energy_entry(cell: CellResult, energy: dict[str, float]) -> tuple[Entry, ...]:
    return (Entry(significant(_largest(energy.get(run["run_id"]) for run in cell.runs))),) if energy else ()


def held_back(results: Results) -> list[str]:
    """What limits did to runs, a sentence each: numbers of such a run are those of the limit."""
    said = []
    for run_id, manifest in results.manifests.items():
        effect = manifest.get("limits", {}).get("effect", {})
        if effect.get("throttled_periods"):
            periods = f"{count(effect['throttled_periods'])} of {count(effect['periods'])} periods of 100 ms"
            said.append(f"{run_id}: the broker was out of CPU time in {periods}.")
        if effect.get("oom_kills"):
            said.append(
                f"{run_id}: the kernel killed {count(effect['oom_kills'])} of the broker's processes for memory."
            )
    return said


def _row(cell: CellResult, results: Results, used: list[Row], has_limits: bool) -> tuple[Entry, ...]:
    own = [row for row in used if row["cell"] == cell.id]
    runs = [results.manifests.get(row["run_id"], {}).get("limits") for row in cell.runs]
    limits = [section for section in runs if section]
    return (
        Entry(cell.broker),
        *(Entry(level_value(name, value)) for name, value in cell.levels),
        *(_limit_entries(limits) if has_limits else ()),
        Entry(count(_largest(row.get("threads_max") for row in own))),
        Entry(count(_largest(row.get("open_files_max") for row in own))),
    )


def _limit_entries(limits: list[Json]) -> tuple[Entry, ...]:
    if not limits:
        return Entry("none", mark="quiet"), Entry(NOT_KNOWN, mark="quiet"), Entry(NOT_KNOWN, mark="quiet")
    effects = [section["effect"] for section in limits]
    throttled = [effect for effect in effects if effect.get("throttled_periods") is not None]
    worst = max(throttled, key=lambda effect: int(effect["throttled_periods"]), default=None)
    kills = _largest(effect.get("oom_kills") for effect in effects)
    return (
        Entry(limits_text(limits[0]["asked"])),
        Entry(NOT_KNOWN, mark="quiet")
        if worst is None
        else Entry(
            f"{count(worst['throttled_periods'])} of {count(worst['periods'])}",
            mark="warn" if worst["throttled_periods"] else "",
        ),
        Entry(count(kills), mark="bad" if kills else ""),
    )


def limits_text(asked: Json) -> str:
    """Limits as people say them: "0.5 CPU, core 0, 256 MB, no swap"."""
    cores, memory, swap = asked.get("cores"), asked.get("memory_bytes"), asked.get("swap_bytes")
    parts = [
        f"{brief(asked['cpus'])} CPU" if asked.get("cpus") is not None else "",
        f"core {', '.join(map(str, cores))}" if cores else "",
        bytes_text(memory) if memory is not None else "",
        "" if swap is None else f"{bytes_text(swap)} of swap" if swap else "no swap",
    ]
    return ", ".join(part for part in parts if part)


def _largest(values: Iterable[object]) -> float | None:
    return max((value for each in values if (value := known(each)) is not None), default=None)
