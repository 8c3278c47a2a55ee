"""Probes that were kept with a study's results: what was found of a broker, when, and of which version.

    <out>/probes/<driver>.<kind>.json      kind: conformance | cluster | bridge

The report stands them beside what drivers declare and what papers print (001's Table I).
"""

import json
from datetime import UTC, datetime
from pathlib import Path

import brokerlab
from brokerlab.errors import UserError
from brokerlab.record.manifest import Json, replace_json

FORMAT = 1
CONFORMANCE = "conformance"  # of one node, against the specification; an ensemble's kind is how it is joined
_ABOUT = ("driver", "kind", "made_at")


def kept(folder: Path, driver: str, kind: str) -> Path:
    """Where the probe of this broker is kept, if it is."""
    return folder / f"{driver}.{kind}.json"


def keep_probe(folder: Path, driver: str, kind: str, found: Json) -> Path:
    """Keeps what a probe found, in the place of an earlier one; where."""
    about = {
        "format": FORMAT,
        "driver": driver,
        "kind": kind,
        "made_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "brokerlab": brokerlab.__version__,
    }
    path = kept(folder, driver, kind)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        replace_json(path, {**about, **found})
    except OSError as problem:
        raise UserError(f"the probe cannot be kept as {path}: {problem.strerror or problem}") from problem
    return path


def read_probes(folder: Path) -> tuple[tuple[Json, ...], tuple[str, ...]]:
    """The probes that are kept there, by name of their files, and why others cannot be read."""
    probes, problems = list[Json](), list[str]()
    for path in sorted(folder.glob("*.json")):
        try:
            probes.append(_read(path))
        except (OSError, ValueError) as problem:
            problems.append(f"{path}: the probe cannot be read: {problem}")
    return tuple(probes), tuple(problems)


def _read(path: Path) -> Json:
    """ValueError where it is not one that this brokerlab can read."""
    probe = json.loads(path.read_text(encoding="utf-8"))
    version = probe.get("format") if isinstance(probe, dict) else None
    if version != FORMAT:
        raise ValueError(f"its format is {version}, and this brokerlab reads {FORMAT}")
    if missing := [name for name in _ABOUT if not isinstance(probe.get(name), str)]:
        raise ValueError(f"it does not say its {missing[0]}")
    content: Json = probe
    return content
