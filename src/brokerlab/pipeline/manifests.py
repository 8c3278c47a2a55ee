"""What the manifests of a study say, as rows and small values; no Spark and no raw file in sight.

A manifest that cannot be read is a problem to report; the other runs come out all the same.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

from brokerlab.errors import UserError
from brokerlab.pipeline.schemas import CELL_PLACES, MANIFESTS, PIPELINE_VERSION, RUN_PLACES, arrow_schema
from brokerlab.record.directory import RunDirectory, StudyDirectory
from brokerlab.record.manifest import Json
from brokerlab.study.topics import topic_matches
from brokerlab.study.values import Analysis, Topics

_VERDICTS = ("valid", "invalid", "collapsed")
_PASSED = {"passed": True, "failed": False}  # another outcome says nothing about the broker
_REFUSED = 0x80
# Arrivals whose one rate holds for the whole schedule.
_STEADY = ("constant", "poisson", "jitter", "burst")


@dataclass(frozen=True, slots=True)
class Phase:
    name: str
    start_ns: int
    end_ns: int

    @property
    def seconds(self) -> float:
        return (self.end_ns - self.start_ns) / 1e9


@dataclass(frozen=True, slots=True)
class Subscription:
    subscriber: int
    filters: tuple[str, ...]  # without those that were refused; of a shared subscription without $share and group
    granted_qos: int | None  # 128 is a refusal
    group: str | None = None  # of a shared subscription
    replayed_since_ns: int | None = None  # when it subscribed, in a run whose subscribers come after the messages


@dataclass(frozen=True, slots=True)
class ProbeFacts:
    publisher: int
    overhearing: tuple[int, ...]  # subscribers of the load whose filter matches the probe's topic


@dataclass(frozen=True, slots=True)
class RunFacts:
    """One run directory, as far as its manifest tells."""

    run_id: str
    directory: RunDirectory
    topics: Mapping[int, str]  # by publisher: where its messages are heard, its first; in the role echo that of answers
    rule: Topics | None  # how topics are made, where publishers have several
    subscriptions: tuple[Subscription, ...]
    phases: tuple[Phase, ...]
    payload_classes: tuple[int, ...]  # sizes that are told apart; none where all messages have one
    late_ns: int  # a first arrival this much after its intended time is late
    row: Mapping[str, Any]  # the columns of MANIFESTS
    devices: tuple[int, ...] = ()
    probe: ProbeFacts | None = None

    @property
    def trials(self) -> tuple[Phase, ...]:
        """Of a search: its trials, and the measure phase, which is one more."""
        names = {trial["phase"] for trial in self.row["trials"]}
        return tuple(phase for phase in self.phases if phase.name in names)

    @property
    def measure(self) -> Phase | None:
        return next((phase for phase in self.phases if phase.name == "measure"), None)


def run_id_of(directory: RunDirectory) -> str:
    """The run's place below runs/: also a run that was set aside has a name of its own."""
    return f"{directory.path.parent.name}/{directory.path.name}"


def read_runs(results: StudyDirectory) -> tuple[list[RunFacts], list[str]]:
    """The runs of a study in natural order of cells and repetitions, and what is wrong with the others."""
    facts, problems = [], []
    for directory in results.runs():
        try:
            facts.append(read_facts(directory))
        except UserError as problem:
            problems.append(problem.message)
    return sorted(facts, key=_natural_order), problems


def read_facts(directory: RunDirectory) -> RunFacts:
    """The facts of one run; a damaged manifest is refused with its path."""
    manifest = directory.manifest()
    try:
        phases = _phases(manifest)
        facts = RunFacts(
            run_id=run_id_of(directory),
            directory=directory,
            topics=_topics(manifest),
            rule=_rule(manifest),
            subscriptions=_subscriptions(manifest),
            phases=phases,
            payload_classes=_payload_classes(manifest.get("workload", {})),
            late_ns=round(manifest.get("ledger", {}).get("late_s", Analysis().late_s) * 1e9),
            row=_row(manifest, directory, phases),
            devices=tuple(int(client["device"]) for client in _clients(manifest, "devices")),
            probe=_probe(manifest),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as problem:
        raise UserError(f"{directory.manifest_path}: the manifest is damaged: {problem!r}") from problem
    _refuse_wrong_types(facts)
    return facts


def manifests_table(facts: Sequence[RunFacts]) -> pa.Table:
    """One row per run."""
    return pa.Table.from_pylist([dict(run.row) for run in facts], schema=arrow_schema(MANIFESTS))


def places_tables(facts: Sequence[RunFacts]) -> tuple[pa.Table, pa.Table]:
    """The place of every run, and of every cell, in the order of the list."""
    runs = [{"run_id": run.run_id, "position": position} for position, run in enumerate(facts)]
    cells = [{"cell": cell, "position": position} for position, cell in enumerate(dict.fromkeys(_cells(facts)))]
    return (
        pa.Table.from_pylist(runs, schema=arrow_schema(RUN_PLACES)),
        pa.Table.from_pylist(cells, schema=arrow_schema(CELL_PLACES)),
    )


def _cells(facts: Sequence[RunFacts]) -> Iterator[str]:
    for run in facts:
        yield run.row["cell"]


def _refuse_wrong_types(facts: RunFacts) -> None:
    for field in arrow_schema(MANIFESTS):
        value = facts.row.get(field.name)
        try:
            pa.array([value], field.type)
        except (pa.ArrowException, OverflowError) as problem:
            path = facts.directory.manifest_path
            raise UserError(f"{path}: the manifest is damaged: {field.name} is {value!r}: {problem}") from problem


def _natural_order(facts: RunFacts) -> tuple[object, ...]:
    """Numbers within names count as numbers: rate-20 comes before rate-100, and 2 before 10."""
    parts = re.split(r"(\d+)", f"{facts.row['cell']}/{facts.run_id}")
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in parts)


def _topics(manifest: Json) -> dict[int, str]:
    publishers = _clients(manifest, "publishers")
    return {int(client["publisher"]): str(client.get("reply", client["topic"])) for client in publishers}


def _probe(manifest: Json) -> ProbeFacts | None:
    probe = manifest.get("clients", {}).get("probe")
    if probe is None:
        return None
    overhearing = tuple(
        subscription.subscriber
        for subscription in _subscriptions(manifest)
        if any(topic_matches(each, probe["topic"]) for each in subscription.filters)
    )
    return ProbeFacts(int(probe["publisher"]), overhearing)


def _rule(manifest: Json) -> Topics | None:
    written = manifest.get("workload", {}).get("topics", {})
    if int(written.get("count", 1)) == 1:
        return None
    known = {field.name: written[field.name] for field in fields(Topics) if field.name in written}
    return Topics(**known)


def _subscriptions(manifest: Json) -> tuple[Subscription, ...]:
    subscriptions = tuple(_subscription(client) for client in _clients(manifest, "subscribers"))
    if len({subscription.subscriber for subscription in subscriptions}) != len(subscriptions):
        raise ValueError("a subscriber is listed twice")
    return subscriptions


def _subscription(client: Json) -> Subscription:
    """With one filter, or with several and what the broker granted to each."""
    written = [client["filter"]] if "filter" in client else client["filters"]
    granted = client.get("granted") or [0] * len(written)
    filters = [str(each) for each, code in zip(written, granted, strict=True) if code < _REFUSED]
    group = client.get("group")
    if group is not None:
        filters = [each.split("/", 2)[2] for each in filters]
    return Subscription(
        int(client["subscriber"]),
        tuple(filters),
        _whole_or_none(client.get("granted_qos")),
        None if group is None else str(group),
        _whole_or_none(client.get("replayed_since_ns")),
    )


def _whole_or_none(value: Any) -> int | None:
    return None if value is None else int(value)


def _clients(manifest: Json, role: str) -> list[Json]:
    return list(manifest.get("clients", {}).get(role, []))


def _phases(manifest: Json) -> tuple[Phase, ...]:
    return tuple(
        Phase(str(phase["name"]), int(phase["start_ns"]), int(phase["end_ns"])) for phase in manifest.get("phases", [])
    )


def _row(manifest: Json, directory: RunDirectory, phases: tuple[Phase, ...]) -> dict[str, Any]:
    run, workload, broker, machine, meter, besides = (
        manifest.get(section, {}) for section in ("run", "workload", "broker", "machine", "meter", "besides")
    )
    measure = next((phase for phase in phases if phase.name == "measure"), None)
    verdict, reasons = _verdict(manifest)
    return {
        "run_id": run_id_of(directory),
        "cell": run.get("cell") or directory.path.parent.name,
        "repetition": run.get("repetition"),
        "order": run.get("order"),
        "broker": broker.get("name") or run.get("levels", {}).get("broker"),
        "driver": broker.get("driver"),
        "version": broker.get("version"),
        "qos": workload.get("qos"),
        "levels": [(str(name), str(level)) for name, level in run.get("levels", {}).items()],
        "verdict": verdict,
        "reasons": reasons,
        "started_at": _started_at(manifest, phases),
        "phases": [(phase.name, phase.seconds) for phase in phases],
        **_load_columns(workload, meter),
        "identity": manifest.get("identity", {}).get("form", "full"),  # the only form before there were others
        **_capacity_columns(manifest, workload),
        "schedule_lag_p99_ms": meter.get("schedule_lag_ms", {}).get("p99"),
        "generator_cpu_percent": _busiest_percent(meter),
        "kernel": machine.get("kernel"),
        "cpu_model": machine.get("cpu_model"),
        "cores": machine.get("cores"),
        "brokerlab": manifest.get("versions", {}).get("brokerlab"),
        "pipeline": PIPELINE_VERSION,
        "is_cut_off": "verdict" not in manifest,
        "qos_asked": _qos_asked(workload),
        "measure_start_ns": measure.start_ns if measure else None,
        "measure_end_ns": measure.end_ns if measure else None,
        "other_publications": manifest.get("proof", {}).get("publications", 0) + besides.get("publications", 0),
        "other_bytes": besides.get("payload_bytes", 0),
        "proof_publications": manifest.get("proof", {}).get("publications", 0),
        "is_scalable": broker.get("is_scalable"),
        "system_cpu_percent": manifest.get("surroundings", {}).get("system_cpu_percent"),
        "trials": _trials(manifest, phases),
        "counters": [_counter_claim(claim, manifest) for claim in broker.get("counters", [])],
    }


def _load_columns(workload: Json, meter: Json) -> dict[str, Any]:
    schedule = workload.get("schedule", {})
    arrivals = schedule.get("arrivals")
    return {
        "role": workload.get("role", "one-way"),
        "payload_bytes": None if _has_sizes(workload) else workload.get("payload_bytes"),
        "publishers": workload.get("publishers"),
        "subscribers": workload.get("subscribers"),
        "arrivals": arrivals,
        "rate_per_s": schedule.get("rate_per_s") if arrivals in _STEADY else None,
        "window": _window(schedule.get("window"), meter) if arrivals == "saturate" else None,
    }


def _qos_asked(workload: Json) -> int | None:
    """What subscribers asked for: those who hear devices ask for the QoS of their answers."""
    hears = workload.get("echo", {}) if workload.get("role") == "echo" else workload
    return _whole_or_none(hears.get("qos"))


def _has_sizes(workload: Json) -> bool:
    """Whether the messages of a run differ in length."""
    return bool(_payload_classes(workload) or (workload.get("payload") or {}).get("replay"))


def _payload_classes(workload: Json) -> tuple[int, ...]:
    payload = workload.get("payload") or {}
    sizes = [int(size) for size, _ in payload.get("mix") or ()] or [int(size) for size in payload.get("each") or ()]
    return tuple(dict.fromkeys(sizes))


def _capacity_columns(manifest: Json, workload: Json) -> dict[str, Any]:
    """What a search found, of all publishers together."""
    search = manifest.get("search", {})
    found, publishers = search.get("found", {}), workload.get("publishers") or 1
    rate, high = found.get("rate_per_s"), found.get("high_per_s")
    return {
        "capacity_per_s": None if rate is None else publishers * rate,
        "capacity_high_per_s": None if high is None else publishers * high,
        "p99_limit_ms": search.get("p99_limit_ms"),
    }


def _trials(manifest: Json, phases: tuple[Phase, ...]) -> list[Json]:
    """The trials of a search whose phase was noted, in their order."""
    times = {phase.name: phase for phase in phases}
    made = [trial for trial in manifest.get("search", {}).get("trials", []) if trial["phase"] in times]
    return [
        {
            "trial": number,
            "phase": trial["phase"],
            "rate_per_s": trial["rate_per_s"],
            "start_ns": times[trial["phase"]].start_ns,
            "end_ns": times[trial["phase"]].end_ns,
            "passed": _PASSED.get(trial["outcome"]),
            "why_not": list(trial["why"]),
        }
        for number, trial in enumerate(made, start=1)
    ]


def _window(asked: object, meter: Json) -> int | None:
    """The window of a saturating load; where the study left it open, the one that the load came to."""
    reached = asked if isinstance(asked, int) else meter.get("window")
    return reached if isinstance(reached, int) else None


def _verdict(manifest: Json) -> tuple[str, list[str]]:
    if "verdict" not in manifest:
        return "invalid", [f"cut off: the manifest has no verdict and ends with {list(manifest)[-1]!r}"]
    value, reasons = manifest["verdict"]["value"], list(manifest["verdict"].get("reasons", []))
    if value not in _VERDICTS:
        return "invalid", [*reasons, f"the manifest's verdict {value!r} is not one of {', '.join(_VERDICTS)}"]
    return value, reasons


def _started_at(manifest: Json, phases: tuple[Phase, ...]) -> str | None:
    """The start of the first phase on the wall clock, through the one reading of both clocks."""
    clock = manifest.get("clock")
    if not clock:
        return None
    since_anchor_ns = phases[0].start_ns - clock["mono_ns"] if phases else 0
    started = datetime.fromtimestamp((clock["wall_ns"] + since_anchor_ns) / 1e9, tz=UTC)
    return started.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _busiest_percent(meter: Json) -> float | None:
    shares = [worker["cpu_percent"] for worker in meter.get("workers", []) if worker.get("cpu_percent") is not None]
    return max(shares, default=None)


def _counter_claim(claim: Json, manifest: Json) -> Json:
    """What the broker counts, and why it cannot be compared with ours."""
    if "topic" in claim:
        return _old_counter_claim(claim, manifest)
    counting = manifest.get("counting")
    why_not = counting["not_comparable"].get(claim["name"]) if counting else "the run did not come to its end"
    return {
        "name": claim["name"],
        "count": claim["count"],
        "has_proof": claim["has_proof"],
        "has_sys": claim["has_sys"],
        "why_not": why_not,
        "note": claim.get("note") or None,
    }


def _old_counter_claim(claim: Json, manifest: Json) -> Json:
    """Of a run directory from when brokers were asked for what they received alone."""
    counts = {"publications": "received", "payload_bytes": "received_bytes"}
    used = {manifest.get("workload", {}).get("qos"), *manifest.get("besides", {}).get("qos", [])}
    return {
        "name": claim["topic"],
        "count": counts.get(claim.get("equals", "")),
        "has_proof": True,
        "has_sys": False,
        "why_not": None if used <= set(claim.get("qos", [])) else "it leaves out a QoS of this run",
        "note": claim.get("note") or None,
    }
