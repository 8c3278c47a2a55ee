"""How near the runs came to what the meter itself can do, by the calibration in the manifest of each."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field

from brokerlab.record.manifest import Json
from brokerlab.report.numbers import brief, known, listed, significant
from brokerlab.report.results import Results, Row
from brokerlab.report.table import Entry, Table, number, text

_WAYS = (("send", "publishing", ("publishers", "loops"), "published_recorded_per_s"),
         ("delivery", "receiving", ("subscribers", "loops"), "received_per_s"))  # fmt: skip
# What a set-up is, of all that its calibration says: lab/setups.py has them by the same names.
FACTS = ("payload_bytes", "transport", "protocol", "publishers", "subscribers", "mqtt5", "template", "is_replay",
         "mix", "each", "topics", "saturates", "window", "inflight", "refills", "keeps_session",
         "behaviour", "loops", "answers")  # fmt: skip
_COLUMNS = (
    text("Messages"),
    text("QoS"),
    number("Published", "1/s"),
    number("CPU each", "µs"),
    number("Received", "1/s"),
    number("CPU each", "µs"),
    number("Schedule error p99", "ms"),
    number("Receive resolution p99", "ms"),
    number("Most used in publishing", "%"),
    number("Most used in receiving", "%"),
)


@dataclass(slots=True)
class _Ceiling:
    """What one set-up of the load came to at one QoS, and how much of that runs used."""

    setup: str  # in words
    level: Json
    used: dict[str, float] = field(default_factory=dict)  # percent, by what was done


def ceilings(results: Results) -> Table:
    """A row for each set-up and QoS of these runs."""
    every = sorted(_found(results).items(), key=lambda each: (each[1].setup, each[0]))
    found = [(qos, ceiling) for (_, qos), ceiling in every]
    return Table(_COLUMNS, (tuple(_row(qos, each) for qos, each in found),))


def _row(qos: str, found: _Ceiling) -> tuple[Entry, ...]:
    level, cpu_us = found.level, found.level.get("cpu_us_per_message", {})
    return (
        Entry(found.setup),
        Entry(qos),
        Entry(significant(level["published_recorded_per_s"])),
        Entry(significant(cpu_us.get("published_recorded"))),
        Entry(significant(level["received_per_s"])),
        Entry(significant(cpu_us.get("received"))),
        Entry(significant((level.get("schedule_error_ms") or {}).get("p99"))),
        Entry(significant((level.get("receive_resolution_ms") or {}).get("p99"))),
        *(Entry(significant(found.used.get(verb))) for _, verb, _, _ in _WAYS),
    )


def ceilings_text(results: Results) -> str:
    """The most that a worker of these runs used of its ceilings; what was not calibrated, and why."""
    every = _found(results).values()
    most = [(verb, max((each.used.get(verb, 0.0) for each in every), default=0.0)) for _, verb, _, _ in _WAYS]
    used = [f"{significant(percent)} % in {verb}" for verb, percent in most if percent]
    sections = [manifest["calibration"] for manifest in results.manifests.values() if "calibration" in manifest]
    reasons = sorted({each["reason"] for each in sections if each["value"] is None and each["reason"]})
    said = [f"Workers of these runs came to at most {listed(used)} of that, on the mean of a run."] if used else []
    said += sorted(
        f"A worker of devices answers at most {significant(per_s)} messages a second ({each.setup})."
        for each in every
        if (per_s := known(each.level.get("answered_per_s"))) is not None
    )
    if reasons:
        said.append(f"How far the meter was from its own ceilings is not known: {'; '.join(reasons)}.")
    lacking = {(verb, reason) for each in sections for verb, reason in each.get("without", {}).items()}
    said += [f"There is no ceiling of {verb}: {reason}." for verb, reason in sorted(lacking)]
    return " ".join(said)


def _found(results: Results) -> dict[tuple[str, str], _Ceiling]:
    """By set-up, which is all its facts, and QoS."""
    found: dict[tuple[str, str], _Ceiling] = {}
    for row in results.runs:
        section = results.manifests.get(row["run_id"], {}).get("calibration", {})
        measured = section.get("value") or {}
        qos = str(row["qos"])
        if (level := measured.get(f"qos{qos}")) is None:
            continue
        ceiling = found.setdefault((_identity(section), qos), _Ceiling(_setup(measured), level))
        for verb, percent in _used(results, row["run_id"], level):
            ceiling.used[verb] = max(percent, ceiling.used.get(verb, 0.0))
    return found


def _identity(section: Json) -> str:
    """Its facts as text: words may be shared, as in calibrations before those named all that differs.

    Runs that have only some of its ceilings stand apart.
    """
    facts = {name: value for name, value in section["value"].items() if name in FACTS}
    return json.dumps([facts, sorted(section.get("without", {}))], sort_keys=True)


def _setup(measured: Json) -> str:
    """In the calibration's own words; before there were several they were all alike but for the size."""
    return str(measured.get("set_up", f"{brief(measured.get('payload_bytes', 64))} B over TCP, MQTT 3.1.1"))


def _used(results: Results, run_id: str, level: Json) -> Iterator[tuple[str, float]]:
    for window, verb, roles, ceiling in _WAYS:
        most_per_s = known(level[ceiling])
        for row in results.throughput:
            if row["window"] != window or row["run_id"] != run_id or not (workers := _workers(results, row, roles)):
                continue
            per_s = known(row["published_per_s" if window == "send" else "delivered_per_s"])
            if per_s is not None and most_per_s is not None:
                yield verb, 100 * per_s / workers / most_per_s


def _workers(results: Results, row: Row, roles: tuple[str, ...]) -> int:
    meter = results.manifests.get(row["run_id"], {}).get("meter", {})
    return sum(str(worker["node"]).startswith(roles) for worker in meter.get("workers", ()))
