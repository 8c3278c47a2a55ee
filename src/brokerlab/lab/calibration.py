"""Where a calibration of this machine is kept between runs, and what a run's manifest says of it."""

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from brokerlab.errors import UserError
from brokerlab.lab.machine import machine_facts
from brokerlab.record.manifest import read_manifest, replace_json

FORMAT = 1
USUAL_BYTES = 64  # of payloads
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
    """Keeps a calibration for the runs that follow, beside those of other sizes of payloads; where."""
    path = calibration_path()
    kept = calibration_section()["value"] or {}
    sizes = {_size(each): each for each in (kept, *kept.pop("others", ())) if each} | {_size(content): content}
    first, *others = sorted(sizes.values(), key=lambda each: (_size(each) != USUAL_BYTES, _size(each)))
    with _explained(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_json(path, first | ({"others": others} if others else {}))
    return path


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


def _size(content: Json) -> int:
    return int(content.get("payload_bytes", USUAL_BYTES))


def calibration_section() -> Json:
    """For a manifest: {"value": the calibration or null, "reason": why it is null}.

    It is that of the usual size, with those of other sizes below "others".
    """
    path = calibration_path()
    if not path.exists():
        return {"value": None, "reason": "this machine was never calibrated: brokerlab calibrate"}
    try:
        return {"value": read_manifest(path), "reason": None}
    except UserError as problem:
        return {"value": None, "reason": problem.message}
