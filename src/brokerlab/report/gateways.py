"""Messages on their way over bridges of ours, leg by leg, and where the bytes of connections closed at once stopped.

The legs of paper 004: published by gateways, taken by bridges from the brokers there, handed on to the broker of the
receiving organisation, received by the subscriber.
"""

from collections.abc import Collection, Iterable

from brokerlab.record.manifest import Json
from brokerlab.report.cells import CellResult, Group, level_value, varying_factors
from brokerlab.report.numbers import NOT_KNOWN, brief, count, plural
from brokerlab.report.overview import factor_columns
from brokerlab.report.results import Results, Row
from brokerlab.report.table import Entry, Table, number, text

_DESTINATION = 0  # the node


def legs(results: Results, compared: list[Group]) -> Table:
    """One row per cell: counts of all its runs together, from the first message to the last."""
    columns = (
        text("Broker"), *factor_columns(varying_factors(results)), number("Published"), number("Taken by bridges"),
        number("Handed on"), number("Received"), number("Lost before", "the bridge"), number("Lost in", "the bridge"),
        number("Lost behind", "the bridge"), number("Duplicated"), number("Payload received", "mean, B"),
    )  # fmt: skip
    blocks = tuple(
        tuple(_legs_row(cell, results) for cell in group.cells if _bridging(cell, results)) for group in compared
    )
    return Table(columns, tuple(block for block in blocks if block))


def _bridging(cell: CellResult, results: Results) -> list[Json]:
    """What bridges carried to the destination in the runs of a cell."""
    rows = [row for run in cell.runs for row in results.manifests.get(run["run_id"], {}).get("bridging", ())]
    return [row for row in rows if row["to"] == _DESTINATION]


def _legs_row(cell: CellResult, results: Results) -> tuple[Entry, ...]:
    ledger = [row for row in results.delivery if row["cell"] == cell.id]
    carried = _bridging(cell, results)
    published, received = _sum(ledger, "published"), _sum(ledger, "delivered")
    taken = _sum(carried, "received")
    handed = _sum(carried, "published") - _sum(carried, "dead") - _sum(carried, "resent")
    lost = (published - taken, taken - handed, handed - received)
    return (
        Entry(cell.broker),
        *(Entry(level_value(name, value)) for name, value in cell.levels),
        *(Entry(count(value)) for value in (published, taken, handed, received)),
        *(Entry(count(value), mark="bad" if value > 0 else "quiet") for value in lost),
        Entry(count(_sum(ledger, "duplicated"))),
        Entry(_mean_payload(cell, results)),
    )


def _sum(rows: Iterable[Row], column: str) -> int:
    return sum(int(row[column] or 0) for row in rows)


def _mean_payload(cell: CellResult, results: Results) -> str:
    told = [results.manifests.get(run["run_id"], {}).get("payloads") for run in cell.runs]
    received = [each for each in told if each]
    messages = _sum(received, "received")
    return count(round(_sum(received, "received_bytes") / messages)) if messages else NOT_KNOWN


def stops(results: Results) -> Table:
    """One row per cell and publisher whose connections were closed at once after each message."""
    columns = (
        text("Cell"), number("Publisher"), number("Payload", "B"), number("Connections"), number("All bytes across"),
        number("Not across at the close", "B, least"), number("", "median"), number("", "most"), number("Lost"),
    )  # fmt: skip
    blocks = tuple(_stops_of(run_id, manifest, results) for run_id, manifest in results.manifests.items())
    return Table(columns, tuple(block for block in blocks if block))


def _stops_of(run_id: str, manifest: Json, results: Results) -> tuple[tuple[Entry, ...], ...]:
    lost = {row["publisher"]: row["lost"] for row in results.jitter if row["run_id"] == run_id}
    workload = manifest.get("workload") or {}
    sizes = (workload.get("payload") or {}).get("each") or [workload.get("payload_bytes")]
    return tuple(
        (
            Entry(run_id),
            Entry(str(each["publisher"])),
            Entry(count(sizes[each["publisher"] % len(sizes)])),
            Entry(count(each["closes"])),
            Entry(count(each["whole"]), mark="" if each["whole"] == each["closes"] else "warn"),
            *(Entry(brief(each[name])) for name in ("left_bytes_min", "left_bytes_median", "left_bytes_max")),
            _lost(lost.get(each["publisher"])),
        )
        for each in (manifest.get("meter") or {}).get("closes", ())
    )


def _lost(lost: int | None) -> Entry:
    return Entry(NOT_KNOWN) if lost is None else Entry(count(lost), mark="bad" if lost else "quiet")


def stops_summary(results: Results) -> str:
    """Why messages were lost where connections were closed at once, in figures; empty where none was."""
    closes = [
        (each, run_id)
        for run_id, manifest in results.manifests.items()
        for each in (manifest.get("meter") or {}).get("closes", ())
    ]
    if not closes:
        return ""
    connections = sum(each["closes"] for each, _ in closes)
    broken = sum(each["closes"] - each["whole"] for each, _ in closes)
    abrupt = {run_id for _, run_id in closes}
    lost = {True: 0, False: 0}
    for row in results.jitter:
        lost[row["run_id"] in abrupt] += row["lost"] or 0
    return (
        f"{plural(connections, 'connection')} were closed at once after their message; when {count(broken)} of them "
        "were, bytes of the message had not been acknowledged by the broker’s kernel yet. The close dropped those that "
        "still waited in the gateway’s socket, and the message with them; only one whose last bytes were under way by "
        f"then still arrives.{_behind(abrupt, results)} "
        f"Of the measure phase {count(lost[True])} messages were lost in these runs, and {count(lost[False])} in the "
        "runs whose gateways waited."
    )


def _behind(runs: Collection[str], results: Results) -> str:
    """What became of the messages that had got to a broker, where bridges of ours count them."""
    carried = [row for run_id in runs for row in results.manifests[run_id].get("bridging", ())]
    if not carried:
        return ""
    taken = _sum((row for row in carried if row["to"] == _DESTINATION), "received")
    received = _sum((row for row in results.delivery if row["run_id"] in runs), "delivered")
    said = "none was lost behind a broker." if taken == received else "the others were lost behind a broker."
    return f" Of {count(taken)} that bridges took from the brokers {count(received)} were received: {said}"


def printed(results: Results) -> Table:
    """Table IV of paper 004 as it is printed, one row per deployment and QoS."""
    metrics = (
        ("latency_mean", number("Latency", "mean, ms")),
        ("published_messages_gateways", number("Published")),
        ("received_messages_source_brokers", number("At the source brokers")),
        ("received_messages_destination_broker", number("At the destination broker")),
        ("received_messages_end_to_end", number("Received")),
        ("payload_mean_at_subscriber", number("Payload received", "mean, B")),
    )
    here = [row for row in results.published if row["source"] == "004/table4"]
    values = {(row["variant"], row["qos"], row["metric"]): row["printed"] for row in here}
    kinds = sorted({(row["variant"], row["qos"]) for row in here})
    rows = tuple(
        (
            Entry(f"{variant} B" if variant else NOT_KNOWN),
            Entry(qos),
            *(Entry(values.get((variant, qos, metric)) or NOT_KNOWN) for metric, _ in metrics),
        )
        for variant, qos in kinds
    )
    return Table((text("Deployment, topic"), text("QoS"), *(column for _, column in metrics)), (rows,) if rows else ())
