"""One manifest as a row of schemas.manifests.MANIFESTS."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from brokerlab.pipeline.origin import origin_of
from brokerlab.pipeline.schemas import PIPELINE_VERSION
from brokerlab.pipeline.schemas.manifests import LINK
from brokerlab.record.directory import RunDirectory
from brokerlab.record.manifest import Json
from brokerlab.study.values import Behaviour, Who

_VERDICTS = ("valid", "invalid", "collapsed")
_PASSED = {"passed": True, "failed": False}  # another outcome says nothing about the broker
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


def run_id_of(directory: RunDirectory) -> str:
    """The run's place below runs/: also a run that was set aside has a name of its own."""
    return f"{directory.path.parent.name}/{directory.path.name}"


def whole_or_none(value: Any) -> int | None:
    return None if value is None else int(value)


def row_of(manifest: Json, directory: RunDirectory, phases: tuple[Phase, ...]) -> dict[str, Any]:
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
        "set_up": _set_up(broker),
        "connections": _connections(workload),
        "has_lasting_sessions": (workload.get("clients") or {}).get("session") == "persistent",
        "may_be_away": _may_be_away(workload),
        "may_expire": _may_expire(workload, phases),
        "is_scalable": broker.get("is_scalable"),
        "system_cpu_percent": manifest.get("surroundings", {}).get("system_cpu_percent"),
        "energy_j": manifest.get("surroundings", {}).get("energy_j"),
        "unknown": sorted(origin_of(manifest).unknown),
        "trials": _trials(manifest, phases),
        "counters": [_counter_claim(claim, manifest) for claim in broker.get("counters", [])],
        "links": [_link(row) for row in manifest.get("network", {}).get("links", [])],
        "faults": [_fault(row, manifest.get("relaid", [])) for row in manifest.get("faults", [])],
    }


def _set_up(broker: Json) -> str | None:
    """What makes a broker the same under two names (F-21); None in a run that did not get to start one."""
    if "driver" not in broker:
        return None
    return json.dumps([broker.get(name) for name in ("driver", "version", "preset", "options")], sort_keys=True)


def _may_be_away(workload: Json) -> bool:
    """Whether subscribers leave and come back by the study's plan."""
    life = workload.get("clients") or {}
    return life.get("who") == Who.ALL and life.get("behaviour") in (Behaviour.CHURN, Behaviour.STORM)


def _may_expire(workload: Json, phases: tuple[Phase, ...]) -> bool:
    """Whether a message may have waited for its expiry between the first publication and the end of the drain."""
    expiry_s = (workload.get("mqtt5") or {}).get("expiry_s")
    if expiry_s is None:
        return False
    begin_ns = min((phase.start_ns for phase in phases if phase.name in ("warmup", "measure")), default=0)
    end_ns = max((phase.end_ns for phase in phases if phase.name == "drain"), default=begin_ns + expiry_s * 10**9)
    return bool(end_ns - begin_ns >= expiry_s * 10**9)


def _connections(workload: Json) -> int | None:
    """Of the load; what the lab itself connects beside it is left out."""
    if "publishers" not in workload or "subscribers" not in workload:
        return None
    idle = (workload.get("clients") or {}).get("idle") or 0
    return int(workload["publishers"]) + int(workload["subscribers"]) + int(idle)


def _fault(row: Json, relaid: list[Json]) -> Json:
    """With the time that a new tree of bridges took, where the loss of a node or link made one necessary."""
    own = [
        each
        for each in relaid
        if (row.get("kind") == "kill" and row["node"] in each.get("lost", []))
        or (row.get("kind") == "cut" and row["target"] in each.get("cut", []))
    ]
    seconds = own[0].get("crossed_s") if own else None
    return {
        "fault": row["fault"],
        "kind": row["kind"],
        "target": row["target"],
        "at_ns": row["at_ns"],
        "end_ns": row.get("end_ns"),
        "relaid_ms": None if seconds is None else 1000.0 * seconds,
    }


def _link(row: Json) -> Json:
    return {name: row.get(name) for name in LINK.names}


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
    return whole_or_none(hears.get("qos"))


def _has_sizes(workload: Json) -> bool:
    """Whether the messages of a run differ in length."""
    return bool(payload_classes(workload) or (workload.get("payload") or {}).get("replay"))


def payload_classes(workload: Json) -> tuple[int, ...]:
    payload = workload.get("payload") or {}
    sizes = [int(size) for size, _ in payload.get("mix") or ()] or [int(size) for size in payload.get("each") or ()]
    return tuple(dict.fromkeys(sizes))


def _capacity_columns(manifest: Json, workload: Json) -> dict[str, Any]:
    """What a search found, of all publishers together."""
    search = manifest.get("search", {})
    found, publishers = search.get("found", {}), workload.get("publishers") or 1
    rate, low, high = found.get("rate_per_s"), found.get("low_per_s"), found.get("high_per_s")
    return {
        "capacity_per_s": None if rate is None else publishers * rate,
        "capacity_low_per_s": None if low is None else publishers * low,
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
