"""Readings on disk: ordinary run directories, beside those that are there already.

Nothing of the generator's limits is known of a run that somebody else made: its verdict says so.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import brokerlab
from brokerlab.errors import UserError
from brokerlab.imports.base import Format, Options, Reading, Source
from brokerlab.record.directory import RunDirectory, StudyDirectory
from brokerlab.record.manifest import Manifest
from brokerlab.record.parts import PartWriter
from brokerlab.record.schemas import RAW_SCHEMAS

_UNSAFE = re.compile(r"[^A-Za-z0-9_.+-]+")
NOT_GUARDED = "imported: whether its generator was the limit is not known"
_ROWS_AT_ONCE = 100_000


@dataclass(frozen=True, slots=True)
class Written:
    """One run that was made of a source."""

    run_id: str
    deliveries: int
    lines: int
    malformed: int
    examples: tuple[str, ...]  # of malformed lines, with file and number


def import_runs(
    form: Format, path: Path, results: StudyDirectory, *, levels: Mapping[str, str], options: Options
) -> list[Written]:
    """Reads everything before it writes anything: a file that is not of the format leaves nothing behind."""
    read = [(sources, form.read(sources, options)) for sources in _sources(form, path)]
    empty = [sources for sources, readings in read if not readings]
    if empty:
        raise _foreign(form, empty[0])
    write_study(results, form.name, path)
    return [_write(results, form, reading, sources, levels) for sources, readings in read for reading in readings]


def _sources(form: Format, path: Path) -> list[list[Source]]:
    """The files of each run: a file, or what a folder holds, hidden files aside."""
    if path.is_file():
        return [[Source(path)]]
    if not path.is_dir():
        raise UserError(f"{path}: no such file or folder")
    files = sorted(file for file in path.iterdir() if file.is_file() and not file.name.startswith("."))
    if not files:
        raise UserError(f"{path}: there is no file in it")
    sources = [Source(file) for file in files]
    return [sources] if form.is_folder_a_run else [[source] for source in sources]


def _foreign(form: Format, sources: Sequence[Source]) -> UserError:
    source = sources[0]
    first = f"line {source.examples[0]['line']}: {source.examples[0]['why']}" if source.examples else "it is empty"
    return UserError(
        f"{source.path}: not of the format {form.name}: {first}",
        hint="is it another one? `brokerlab import --help` lists them",
    )


def write_study(results: StudyDirectory, format_name: str, path: Path) -> None:
    """The few keys that the tables and the report ask for; results of other studies are not mixed with imports."""
    results.path.mkdir(parents=True, exist_ok=True)
    if results.plan.exists():
        raise UserError(f"{results.path} holds results of `brokerlab run`", hint="give another directory with --out")
    if not results.study.exists():
        name = _UNSAFE.sub("-", results.path.resolve().name) or "import"
        lines = (
            "brokerlab: 1",
            f"study: {name}",
            "goals:",
            f"  question: 'What does {path.name.replace(chr(39), '')} ({format_name}) say?'",
            "  rank_by: latency.p99",
            "analysis:",
            "  confidence: 95 %",
        )
        results.study.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _write(
    results: StudyDirectory, form: Format, reading: Reading, sources: Sequence[Source], levels: Mapping[str, str]
) -> Written:
    cell = cell_of(levels, form.name)
    repetition = next_repetition(results, cell)
    run = results.run(f"{cell}/{repetition}")
    run.path.mkdir(parents=True)
    for kind, table in reading.raw.items():
        writer = PartWriter(run.raw(kind), "import", RAW_SCHEMAS[kind])
        for batch in table.to_batches(_ROWS_AT_ONCE):
            writer.write(batch)
        writer.close()
    _write_manifest(run, form, reading, sources, levels, cell, repetition)
    return Written(
        run_id=f"{cell}/{repetition}",
        deliveries=reading.raw["deliveries"].num_rows if "deliveries" in reading.raw else 0,
        lines=sum(source.lines for source in sources),
        malformed=sum(source.malformed for source in sources),
        examples=tuple(
            f"{source.path.name}:{each['line']}: {each['why']}" for source in sources for each in source.examples
        ),
    )


def cell_of(levels: Mapping[str, str], format_name: str) -> str:
    return ".".join(f"{_safe(name)}-{_safe(level)}" for name, level in levels.items()) or format_name


def _safe(text: str) -> str:
    return _UNSAFE.sub("-", text) or "-"


def next_repetition(results: StudyDirectory, cell: str) -> int:
    folder = results.path / "runs" / cell
    taken = [int(entry.name) for entry in folder.iterdir() if entry.name.isdecimal()] if folder.is_dir() else []
    return max(taken, default=0) + 1


def _write_manifest(
    run: RunDirectory,
    form: Format,
    reading: Reading,
    sources: Sequence[Source],
    levels: Mapping[str, str],
    cell: str,
    repetition: int,
) -> None:
    manifest = Manifest(run.manifest_path)
    malformed, lines = sum(source.malformed for source in sources), sum(source.lines for source in sources)
    manifest.add(
        "run",
        {"id": f"{cell}/{repetition}", "cell": cell, "repetition": repetition, "order": None, "levels": dict(levels)},
    )
    manifest.add("workload", dict(reading.workload))
    manifest.add("versions", {"brokerlab": brokerlab.__version__})
    manifest.add("broker", {"name": levels.get("broker"), "version": levels.get("version")})
    if reading.has_wall_clock:
        manifest.add("clock", {"name": "wall clock of the source", "mono_ns": 0, "wall_ns": 0})
    manifest.add("clients", dict(reading.clients))
    manifest.add(
        "source",
        {
            "format": form.name,
            "layout": "foreign",
            "files": [_about(source) for source in sources],
            "unknown": sorted(reading.unknown),
            "told": {what: list(names) for what, names in reading.told.items()},
            "notes": list(reading.notes),
        },
    )
    manifest.add("phases", [{"name": "measure", "start_ns": reading.start_ns, "end_ns": reading.end_ns}])
    reasons = [NOT_GUARDED, *reading.notes]
    if malformed:
        reasons.append(f"{malformed} of {lines} lines are malformed")
    manifest.add("verdict", {"value": "valid", "reasons": reasons})


def _about(source: Source) -> dict[str, object]:
    return {
        "name": source.path.name,
        "sha256": hashlib.sha256(source.path.read_bytes()).hexdigest(),
        "lines": source.lines,
        "malformed": source.malformed,
        "examples": source.examples,
    }
