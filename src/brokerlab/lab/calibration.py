"""Where a calibration of this machine is kept between runs, and what a run's manifest says of it."""

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from brokerlab.errors import UserError
from brokerlab.lab.machine import machine_facts
from brokerlab.lab.setups import MOST_BYTES, USUAL, SetUp, setup_from, setups_of
from brokerlab.record.manifest import read_manifest, replace_json
from brokerlab.study.plan import Cell
from brokerlab.study.quantity import bytes_text

FORMAT = 1
Json = dict[str, Any]
_IDENTITY = ("host", "cores", "memory_bytes", "cpu_model", "kernel")


def calibration_path() -> Path:
    """The file of this machine: another core count or kernel is another machine."""
    facts = machine_facts()
    text = "/".join(str(facts[name]) for name in _IDENTITY)
    key = hashlib.sha256(text.encode()).hexdigest()[:12]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "brokerlab" / key / "calibration.json"


def store_calibration(content: Json) -> Path:
    """Keeps a calibration for the runs that follow, beside those of other set-ups; where.

    Levels that it does not have are kept as they were.
    """
    path = calibration_path()
    every = {setup_from(each): each for each in _read(path)}
    own = setup_from(content)
    every[own] = every.get(own, {}) | content
    ordered = sorted(every.items(), key=lambda each: (each[0] != USUAL, each[0].text))
    first, *others = (kept for _, kept in ordered)
    with _explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_json(path, first | ({"others": others} if others else {}))
    return path


def _read(path: Path) -> list[Json]:
    """Those that are kept: the usual set-up first. A damaged file holds none."""
    try:
        first = read_manifest(path) if path.exists() else {}
    except UserError:
        return []
    others = first.pop("others", [])
    return [first, *others] if first else []


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


def calibration_section(setup: SetUp = USUAL, qos: int | None = None) -> Json:
    """For a manifest: {"value": the calibration of this set-up or null, "reason": why it is null}.

    With a QoS it must have been measured at that.
    """
    path = calibration_path()
    if not path.exists():
        return {"value": None, "reason": "this machine was never calibrated: brokerlab calibrate"}
    try:
        read_manifest(path)
    except UserError as problem:
        return {"value": None, "reason": problem.message}
    for each in _read(path):
        if setup_from(each) == setup and (qos is None or f"qos{qos}" in each):
            return {"value": each, "reason": None}
    level = "" if qos is None else f" at QoS {qos}"
    return {"value": None, "reason": _why_not(setup) or f"the meter was not calibrated for {setup.text}{level}"}


def _why_not(setup: SetUp) -> str:
    """Why this set-up cannot be calibrated; empty if it can."""
    if setup.payload_bytes > MOST_BYTES:
        return f"payloads over {bytes_text(MOST_BYTES)} are not calibrated"
    return ""


def missing_setups(cells: Iterable[Cell]) -> dict[SetUp, list[int]]:
    """What these cells use and this machine has no calibration of, though it can have one."""
    missing = {
        setup: [qos for qos in levels if calibration_section(setup, qos)["value"] is None]
        for setup, levels in setups_of(cells).items()
        if not _why_not(setup)
    }
    return {setup: levels for setup, levels in missing.items() if levels}
