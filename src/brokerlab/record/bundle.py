"""One archive of a study, for somebody else's machine: study, plan, runs, configurations and tables.

    brokerlab bundle results/gateway-choice      gateway-choice.tar.gz
    tar xzf gateway-choice.tar.gz && brokerlab analyze gateway-choice

The same files give the same bytes: names are sorted, and times and owners are left out. Secrets never come near a
run directory; whatever looks like one all the same is not packed, and the bundle says so.
"""

import gzip
import hashlib
import io
import json
import os
import re
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import brokerlab
from brokerlab.errors import UserError
from brokerlab.record.directory import RunDirectory, StudyDirectory
from brokerlab.record.schemas import RAW_SCHEMAS

FORMAT = 1
ABOUT = "bundle.json"
RAW_DATA, HISTOGRAMS = "raw data", "histograms"  # what a bundle holds of its runs
PARTIALS = ".partials"  # histograms and counts of every run: pipeline/known.py
OF_CAPTURES = ("traffic", "legs", "captures")  # tables of packets, which no histogram holds

_OURS = ("study.yaml", "plan.json", "report.html", "probes", "tables", "runs")
_RAW = (*RAW_SCHEMAS, "traffic")
_KEYS = re.compile(r"\.(key|p12|pfx|jks|keystore)$|^\.?(passwd|passwords?|htpasswd|credentials)(\.|$)", re.IGNORECASE)
_PRIVATE = b"PRIVATE KEY-----"
_BY_NAME = re.compile(r"env:(\w+)")
_TEXT_BYTES = 4 * 2**20


@dataclass(frozen=True, slots=True)
class Packed:
    path: Path
    files: int
    left_out: tuple[str, ...]


def pack(results: StudyDirectory, target: Path, *, histograms: bool = False) -> Packed:
    """Writes the archive, whole or not at all; with `histograms` partial results stand for the raw files."""
    if not any(results.runs()):
        raise UserError(f"{results.path}: there are no runs to pack")
    if histograms and not (results.path / PARTIALS / "index.json").exists():
        raise UserError(
            f"{results.path}: its histograms are not made yet", hint=f"first: brokerlab analyze {results.path}"
        )
    if histograms:
        _refuse_unknown_runs(results)
    secrets = _secrets_of(results)
    chosen, left_out = dict[str, Path](), list[str]()
    for path in _files(results, histograms=histograms):
        name = str(path.relative_to(results.path))
        if reason := _secret_in(path, secrets):
            left_out.append(f"{name}: {reason}")
        else:
            chosen[name] = path
    beside = target.with_name(target.name + ".part")
    try:
        about = {"holds": HISTOGRAMS, "as_packed": _as_packed(results)} if histograms else {"holds": RAW_DATA}
        _write(beside, results.path.resolve().name, chosen, about | {"left_out": left_out})
        beside.replace(target)
    except OSError as problem:
        raise UserError(
            f"{target} cannot be written: {problem.strerror}", hint="give another file with -o"
        ) from problem
    finally:
        beside.unlink(missing_ok=True)
    return Packed(target, len(chosen), tuple(left_out))


def bundled(results: StudyDirectory) -> str | None:
    """What a directory that was unpacked holds of its runs; None where it was not."""
    holds = _about(results).get("holds")
    return None if holds is None else str(holds)


def tables_as_packed(results: StudyDirectory) -> tuple[str, ...]:
    """Tables that came with a bundle and cannot be made again, because what they are made of was not packed."""
    return tuple(str(name) for name in _about(results).get("as_packed", ()))


def _about(results: StudyDirectory) -> dict[str, Any]:
    try:
        about = json.loads((results.path / ABOUT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return about if isinstance(about, dict) else {}


def _as_packed(results: StudyDirectory) -> list[str]:
    """Those of the tables that only raw files can give; a bundle of a bundle has those of the first."""
    has_captures = any((run.path / "traffic").is_dir() for run in results.runs())
    names = (*(OF_CAPTURES if has_captures else ()), "traces", *tables_as_packed(results))
    return sorted({name for name in names if results.table(name).is_dir()})


def _refuse_unknown_runs(results: StudyDirectory) -> None:
    """A run that came after the last analysis has no histograms: without its raw files nothing of it would be left."""
    try:
        index = json.loads((results.path / PARTIALS / "index.json").read_text(encoding="utf-8"))
        known = {run for batch in index["batches"].values() for run in batch}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        known = set()  # an analysis makes all of them anew
    unknown = [name for run in results.runs() if (name := _id_of(results, run)) not in known and _has_raw(run)]
    if unknown:
        raise UserError(
            f"{results.path}: of {len(unknown)} runs no histograms are made yet, such as {unknown[0]}",
            hint=f"first: brokerlab analyze {results.path}; what that leaves out must be taken away, or packed raw",
        )


def _id_of(results: StudyDirectory, run: RunDirectory) -> str:
    return str(run.path.relative_to(results.path / "runs"))


def _has_raw(run: RunDirectory) -> bool:
    return any(any((run.path / kind).glob("*")) for kind in _RAW)


def _files(results: StudyDirectory, *, histograms: bool) -> Iterator[Path]:
    names = (*_OURS, PARTIALS) if histograms else _OURS
    for name in sorted(names):
        top = results.path / name
        for path in [top] if top.is_file() else sorted(top.rglob("*")):
            inside = path.relative_to(results.path).parts
            is_raw = inside[0] == "runs" and len(inside) > 4 and inside[3] in _RAW
            is_unfinished = path.name.endswith(".part") or ".analysis" in inside
            if path.is_file() and not path.is_symlink() and not is_unfinished and not (histograms and is_raw):
                yield path


def _secrets_of(results: StudyDirectory) -> Mapping[str, bytes]:
    """What the study keeps in the environment, as far as this one has it, by the variable's name."""
    text = results.study.read_text(encoding="utf-8") if results.study.exists() else ""
    names = sorted(set(_BY_NAME.findall(text)))
    return {name: os.environ[name].encode() for name in names if os.environ.get(name)}


def _secret_in(path: Path, secrets: Mapping[str, bytes]) -> str | None:
    """Why a file must not be packed."""
    if _KEYS.search(path.name):
        return "a key or a file of passwords, by its name"
    if path.suffix in (".parquet", ".pcap") or path.stat().st_size > _TEXT_BYTES:
        return None
    content = path.read_bytes()
    if _PRIVATE in content:
        return "it holds a private key"
    return next((f"it holds the secret {name}" for name, value in secrets.items() if value in content), None)


def _write(target: Path, root: str, files: Mapping[str, Path], told: Mapping[str, Any]) -> None:
    sums = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()}
    about = {"format": FORMAT, "brokerlab": brokerlab.__version__, **told, "sha256": sums}
    with (
        target.open("wb") as raw,
        gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0, compresslevel=6) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        text = (json.dumps(about, indent=2) + "\n").encode()
        archive.addfile(_entry(f"{root}/{ABOUT}", len(text)), io.BytesIO(text))
        for name, path in sorted(files.items()):
            with path.open("rb") as file:
                archive.addfile(_entry(f"{root}/{name}", path.stat().st_size), file)


def _entry(name: str, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.mtime = size, 0o644, 0
    return entry
