"""Where a calibration of this machine is kept between runs, and what a run's manifest says of it."""

import fcntl
import hashlib
import os
import platform
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from brokerlab.errors import UserError
from brokerlab.lab.kinds import has_none, unmeasured, without
from brokerlab.lab.machine import machine_facts, versions
from brokerlab.lab.setups import USUAL, SetUp, setup_from, setup_of, setups_of, why_not
from brokerlab.record.manifest import read_manifest, replace_json
from brokerlab.study.plan import Cell
from brokerlab.study.values import LOCAL

FORMAT = 1
ELSEWHERE = "the load runs on Spark's executors: ceilings of the lab's own machine say nothing of those"
_METHOD = 3  # raised where the same meter is measured in another way
LEVEL_RATES = ("published_recorded_per_s", "received_per_s")  # what is read of each QoS
Json = dict[str, Any]
_IDENTITY = ("host", "cores", "memory_bytes", "cpu_model", "kernel")


def calibration_path() -> Path:
    """The file of this machine: another core count or kernel is another machine."""
    facts = machine_facts()
    text = "/".join(str(facts[name]) for name in _IDENTITY)
    key = hashlib.sha256(text.encode()).hexdigest()[:12]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "brokerlab" / key / "calibration.json"


@cache
def todays_versions() -> Mapping[str, str]:
    """Of what decides how fast the meter is: a calibration that was made with others is none of this one's."""
    return MappingProxyType(versions() | {"python": platform.python_version(), "calibration": str(_METHOD)})


def store_calibration(content: Json) -> Path:
    """Keeps a calibration for the runs that follow, beside those of other set-ups; where.

    Levels that it does not have are kept as they were, if they were measured with the same versions.
    """
    path = calibration_path()
    with _explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path.with_name("calibration.lock")):
            every = _read(path)
            own = setup_from(content)
            before = every.get(own, {})
            every[own] = _joined(before, content) if _is_todays(before) else content
            ordered = sorted(every.items(), key=lambda each: (each[0] != USUAL, each[0].text))
            first, *others = (kept for _, kept in ordered)
            replace_json(path, first | ({"others": others} if others else {}))
    return path


def store_failure(setup: SetUp, qos: int, reason: str) -> None:
    """Keeps why there is no calibration, so that manifests can say so, and runs need not try again."""
    store_calibration(
        {"format": FORMAT, **setup.facts, "versions": dict(todays_versions()), "failed": {f"qos{qos}": reason}}
    )


def _joined(before: Json, content: Json) -> Json:
    failed = before.get("failed", {}) | content.get("failed", {})
    failed = {level: reason for level, reason in failed.items() if level not in content}
    joined = {name: value for name, value in (before | content).items() if name != "failed"}
    return joined | ({"failed": failed} if failed else {})


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """While it is held, no other process reads and changes what lies beside `path` (flock(2))."""
    with path.open("w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _read(path: Path) -> dict[SetUp, Json]:
    """Those that are kept, by set-up. A damaged file holds none, and what nobody here can read is not there."""
    try:
        first = read_manifest(path) if path.exists() else {}
    except UserError:
        return {}
    others = first.pop("others", [])
    every = {}
    for each in filter(None, (first, *(others if isinstance(others, list) else ()))):
        with suppress(TypeError, ValueError, AttributeError):  # another brokerlab may know more, or a hand was at it
            every[setup_from(each)] = each | ({"failed": dict(each["failed"])} if "failed" in each else {})
    return every


def require_place() -> None:
    """UserError where a calibration could not be kept: before it is made."""
    path = calibration_path()
    with _explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if not os.access(path.parent, os.W_OK):
            raise PermissionError(f"{path.parent} is not writable")


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise UserError(
            f"the calibration cannot be kept in {path}: {problem}", hint="set XDG_CACHE_HOME to a folder of yours"
        ) from problem


def run_section(cell: Cell, *, load_on: str) -> Json:
    """For the manifest of a run of this cell, whose load is on this machine or elsewhere.

    Ceilings of another kind than its own are null, and "without" has the reason.
    """
    if load_on != LOCAL:
        return {"value": None, "reason": ELSEWHERE}
    if has_none(lacking := unmeasured(cell)):
        return {"value": None, "reason": "; ".join(dict.fromkeys(lacking.values()))}
    level = f"qos{int(cell.workload.qos)}"
    section = calibration_section(setup_of(cell), int(cell.workload.qos))
    if not lacking:
        return section
    if (value := section["value"]) is not None:
        # Of other QoS nothing is this run's.
        kept = {name: found for name, found in value.items() if name == level or not name.startswith("qos")}
        section["value"] = kept | {level: without(value[level], lacking)}
    return section | {"without": lacking}


def calibration_section(setup: SetUp = USUAL, qos: int | None = None) -> Json:
    """For a manifest: {"value": the calibration of this set-up or null, "reason": why it is null}.

    With a QoS it must have been measured at that.
    """
    path = calibration_path()
    if not path.exists():
        return {"value": None, "reason": why_not(setup) or "this machine was never calibrated: brokerlab calibrate"}
    try:
        read_manifest(path)
    except UserError as problem:
        return {"value": None, "reason": problem.message}
    found = _read(path).get(setup)
    if found is not None and _has(found, qos):
        return {"value": {name: value for name, value in found.items() if name != "failed"}, "reason": None}
    return {"value": None, "reason": why_not(setup) or _why_missing(found, setup, qos)}


def _has(kept: Json, qos: int | None) -> bool:
    """Whether it was measured with what is here today, at this QoS if one is given, and says what is read of it."""
    levels = [name for name in kept if name.startswith("qos")] if qos is None else [f"qos{qos}"]
    return _is_todays(kept) and all(_is_level(kept.get(level)) for level in levels)


def _is_todays(kept: Json) -> bool:
    return kept.get("versions") == todays_versions()


def _is_level(found: object) -> bool:
    """Whether it has the rates that reports divide by."""
    return isinstance(found, dict) and all(isinstance(found.get(name), int | float) for name in LEVEL_RATES)


def _why_missing(kept: Json | None, setup: SetUp, qos: int | None) -> str:
    level = setup.text if qos is None else f"{setup.text} at QoS {qos}"
    if kept is not None and not _is_todays(kept):
        return f"the meter was calibrated for {setup.text} with other versions: brokerlab calibrate"
    if reason := (kept or {}).get("failed", {}).get(f"qos{qos}"):
        return f"the meter could not be calibrated for {level}: {reason}; brokerlab calibrate --study tries again"
    return f"the meter was not calibrated for {level}"


def missing_setups(cells: Iterable[Cell]) -> dict[SetUp, list[int]]:
    """What these cells use and this machine has no calibration of, though it can have one and did not fail to."""
    kept = _read(calibration_path())
    missing = {
        setup: [qos for qos in levels if not _is_known(kept.get(setup, {}), qos)]
        for setup, levels in setups_of(cells).items()
        if not why_not(setup)
    }
    return {setup: levels for setup, levels in missing.items() if levels}


def _is_known(kept: Json, qos: int) -> bool:
    return _has(kept, qos) or (_is_todays(kept) and f"qos{qos}" in kept.get("failed", {}))


def failures(cells: Iterable[Cell]) -> list[str]:
    """What these cells use and this machine could not be calibrated for, and why."""
    kept = _read(calibration_path())
    return [
        _why_missing(kept[setup], setup, qos)
        for setup, levels in setups_of(cells).items()
        for qos in levels
        if setup in kept and not why_not(setup) and _is_known(kept[setup], qos) and not _has(kept[setup], qos)
    ]
