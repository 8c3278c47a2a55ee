"""The network of a study: its picture, its links against their claims, and what came in at its routers."""

from collections.abc import Iterable
from typing import Any

from markupsafe import Markup

from brokerlab.report.cells import Group, level_value, varying_factors
from brokerlab.report.numbers import NOT_KNOWN, brief, known, significant
from brokerlab.report.overview import factor_columns
from brokerlab.report.results import Results, Row
from brokerlab.report.table import Entry, Table, number, text
from brokerlab.report.topology_picture import picture

_PLAIN = "veth"
_CLAIMS = ("claimed_rtt_ms", "claimed_rate_bits_per_s", "claimed_loss_percent")


def topology(results: Results) -> Markup | None:
    """The picture of the network, with the round trips that its links claim; None on loopback."""
    networks = [manifest["network"] for manifest in results.manifests.values() if "network" in manifest]
    if not networks:
        return None
    labels: dict[str, str] = {}
    for cable in (each["name"] for each in networks[0]["cables"]):
        links = [each["link"] for network in networks for each in network["cables"] if each["name"] == cable]
        labels[cable] = ", ".join(dict.fromkeys(_label(link) for link in links))
    return picture(networks[0], labels)


def _label(link: dict[str, Any]) -> str:
    rtt_ms = link["there"]["delay_ms"] + link["back"]["delay_ms"]
    rate, loss = link["there"]["rate_bits_per_s"], link["there"]["loss_percent"]
    words = [f"{brief(rtt_ms)} ms" if rtt_ms else "", _rate(rate) if rate else "", f"{brief(loss)} %" if loss else ""]
    return " · ".join(word for word in words if word)


def _rate(bits_per_s: float) -> str:
    return f"{brief(bits_per_s / 1e6)} Mbit/s"


def links(results: Results) -> Table:
    """One row per direction of a link that claims something, and claim: the least and the most that was measured."""
    columns = (
        text("Link"),
        text("Made of"),
        number("Round trip", "ms claimed"),
        number("measured", "ms"),
        number("Rate", "Mbit/s claimed"),
        number("measured", "Mbit/s"),
        number("Loss", "% claimed"),
        number("measured", "%"),
        text("As claimed", "runs"),
    )
    found: dict[tuple[Any, ...], list[Row]] = {}
    for row in results.network:
        if row["kind"] != _PLAIN:
            found.setdefault((row["link"], *(row[claim] for claim in _CLAIMS)), []).append(row)
    block = tuple(_link(rows) for _, rows in sorted(found.items(), key=lambda item: str(item[0])))
    return Table(columns, (block,) if block else ())


def _link(rows: list[Row]) -> tuple[Entry, ...]:
    first = rows[0]
    kept = sum(bool(row["is_as_claimed"]) for row in rows)
    return (
        Entry(first["link"].replace(">", " → ")),
        Entry(first["kind"]),
        Entry(brief(first["claimed_rtt_ms"])),
        Entry(_span(row["measured_rtt_ms"] for row in rows)),
        Entry(_mbit(first["claimed_rate_bits_per_s"])),
        Entry(_span(_scaled(row["measured_rate_bits_per_s"]) for row in rows)),
        Entry(brief(first["claimed_loss_percent"])),
        Entry(_span(row["measured_loss_percent"] for row in rows)),
        Entry(f"{kept}/{len(rows)}", mark="" if kept == len(rows) else "bad"),
    )


def _scaled(bits_per_s: object) -> float | None:
    value = known(bits_per_s)
    return None if value is None else value / 1e6


def _mbit(bits_per_s: object) -> str:
    value = known(bits_per_s)
    return "no limit" if value is None else brief(value / 1e6)


def _span(values: Iterable[object]) -> str:
    """The least and the most, once where they look alike."""
    there = [value for each in values if (value := known(each)) is not None]
    if not there:
        return NOT_KNOWN
    low, high = significant(min(there)), significant(max(there))
    return low if low == high else f"{low} to {high}"


def overhead(results: Results, compared: list[Group]) -> Table:
    """One row per cell: bits a second that came in at all routers from other routers, by phase, over its runs."""
    between = [row for row in results.overhead if row["is_between_sites"]]
    phases = list(dict.fromkeys(phase for row in results.runs for phase in (row["phases"] or {})))
    shown = [phase for phase in phases if any(row["phase"] == phase for row in between)]
    columns = (
        text("Broker"),
        *factor_columns(varying_factors(results)),
        *(number(phase.capitalize(), "kbit/s") for phase in shown),
    )
    blocks = tuple(
        tuple(
            (
                Entry(cell.broker),
                *(Entry(level_value(name, value)) for name, value in cell.levels),
                *(_overhead_entry(between, cell.id, phase) for phase in shown),
            )
            for cell in group.cells
        )
        for group in compared
    )
    return Table(columns, blocks if between else ())


def _overhead_entry(rows: list[Row], cell: str, phase: str) -> Entry:
    above = _totals(rows, cell, phase, column="above_idle_bits_per_s")
    return Entry(_span(_totals(rows, cell, phase)), f"above idle: {_span(above)}" if above else "")


def _totals(rows: list[Row], cell: str, phase: str, *, column: str = "bits_per_s") -> list[float]:
    """Of each run, all routers together, in kbit/s."""
    totals: dict[str, float] = {}
    for row in rows:
        if row["cell"] == cell and row["phase"] == phase and (value := known(row.get(column))) is not None:
            totals[row["run_id"]] = totals.get(row["run_id"], 0.0) + value / 1000
    return list(totals.values())
