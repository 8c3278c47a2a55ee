"""What captures say: bytes on the wire, rates and times of each leg, and what could not be read (M-24, M-26)."""

from brokerlab.report.numbers import NOT_KNOWN, count, plural, significant
from brokerlab.report.results import Results, Row
from brokerlab.report.table import Entry, Table, number, text

_WHOLE = "all"
# What a capture lacks: the column, and how a sentence calls it.
_LACKS = (
    ("dropped", "frame dropped by the kernel", "frames dropped by the kernel"),
    ("beyond_limit", "frame beyond the largest size of a file", "frames beyond the largest size of a file"),
    ("gap_bytes", "byte missing in streams", "bytes missing in streams"),
    ("foreign", "connection that is no MQTT in the clear", "connections that are no MQTT in the clear"),
    ("unopened", "connection without its beginning", "connections without their beginning"),
    ("stream_bytes_unread", "byte that is in no packet", "bytes that are in no packet"),
    ("fragments", "IP fragment", "IP fragments"),
    ("short_frames", "frame without all of its headers", "frames without all of their headers"),
    ("foreign_frames", "frame of a link type that is not read", "frames of a link type that is not read"),
    ("file_bytes_unread", "byte of the file that was not read", "bytes of the file that were not read"),
)


def traffic(results: Results) -> Table:
    """One row per run, tap, phase and type; a block is a run's tap."""
    columns = (
        text("Run"),
        text("Tap"),
        text("Phase"),
        text("Packets of type"),
        number("Packets"),
        number("To the broker"),
        number("Bytes"),
        number("Bytes", "per second"),
        number("Sent again"),
        number("Bytes", "per payload byte"),
    )
    blocks: dict[tuple[str, str], list[Row]] = {}
    for row in results.traffic:
        blocks.setdefault((row["run_id"], row["tap"]), []).append(row)
    return Table(columns, tuple(tuple(_packets(row) for row in rows) for rows in blocks.values()))


def _packets(row: Row) -> tuple[Entry, ...]:
    mark = "" if row["packet_type"] == _WHOLE else "quiet"
    return (
        Entry(row["run_id"]),
        Entry(row["tap"]),
        Entry(row["phase"]),
        Entry(row["packet_type"], mark=mark),
        Entry(count(row["packets"])),
        Entry(count(row["to_broker_packets"])),
        Entry(count(row["bytes"])),
        Entry(significant(row["bytes_per_s"])),
        Entry(count(row["retransmissions"]), mark="warn" if row["retransmissions"] else "quiet"),
        Entry(significant(row["bytes_per_payload_byte"])),
    )


def legs(results: Results) -> Table:
    """One row per run, tap and leg; both windows of a rate are shown."""
    columns = (
        text("Run"),
        text("Tap"),
        text("Leg"),
        number("Messages"),
        number("Window", "s"),
        number("Rate", "per second"),
        number("First in to last out", "s"),
        number("Rate", "per second"),
        number("Mean", "ms"),
        number("Median", "ms"),
        number("p99", "ms"),
        number("p99.9", "ms"),
        number("Not told apart"),
    )
    blocks: dict[str, list[Row]] = {}
    for row in results.legs:
        blocks.setdefault(row["run_id"], []).append(row)
    return Table(columns, tuple(tuple(_leg(row) for row in rows) for rows in blocks.values()))


def _leg(row: Row) -> tuple[Entry, ...]:
    lost = None if row["unmatched"] is None else row["unmatched"] + row["ambiguous"]
    return (
        Entry(row["run_id"]),
        Entry(row["tap"]),
        Entry(row["leg"]),
        Entry(count(row["messages"])),
        *(Entry(significant(row[name])) for name in ("window_s", "per_s", "whole_window_s", "whole_per_s")),
        *(Entry(significant(row[name])) for name in ("mean_ms", "p50_ms", "p99_ms", "p99_9_ms")),
        Entry(NOT_KNOWN if lost is None else count(lost), mark="warn" if lost else "quiet"),
    )


def lacks(results: Results) -> list[str]:
    """What could not be read, a sentence for each capture that lacks something."""
    said = []
    for row in results.captures:
        found = [f"{count(row[name])} {one if row[name] == 1 else many}" for name, one, many in _LACKS if row[name]]
        found += [str(problem) for problem in row["problems"] or ()]
        if found:
            said.append(f"{row['run_id']}, {row['tap']} ({row['file']}): {'; '.join(found)}.")
    return said


def summary(results: Results) -> str:
    frames = sum(row["frames"] or 0 for row in results.captures)
    taps = len(results.captures)
    return f"{plural(taps, 'capture')} with {plural(frames, 'frame')}."
