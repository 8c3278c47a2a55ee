"""Captures of traffic that nobody of ours made: a run directory around each file, which `brokerlab analyze` reads.

Nothing is known of such a run but what was on the wire, so it has no phases, no clients and no ledger.
"""

import hashlib
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import brokerlab
from brokerlab.errors import UserError
from brokerlab.imports.writing import NOT_GUARDED, cell_of, next_repetition, write_study
from brokerlab.record.directory import StudyDirectory
from brokerlab.record.manifest import Manifest

NAME = "pcap"
ABOUT = "a capture of traffic (pcap, pcapng); --port says where the broker listens"
_MAGICS = {
    magic
    for written in ("a1b2c3d4", "a1b23c4d", "0a0d0d0a")
    for magic in (bytes.fromhex(written), bytes.fromhex(written)[::-1])
}
_CHUNK_BYTES = 1 << 20


def import_captures(
    path: Path, results: StudyDirectory, *, levels: Mapping[str, str], ports: Sequence[int] = ()
) -> list[str]:
    """The runs that were made, one a file; nothing is written where one of them is no capture."""
    for port in ports:
        if not 0 < port < 65_536:
            raise UserError(f"--port {port} is not between 1 and 65535")
    files = sorted(file for file in path.iterdir() if file.is_file()) if path.is_dir() else [path]
    for file in files:
        _require_capture(file)
    if not files:
        raise UserError(f"{path}: there is no file in it")
    write_study(results, NAME, path)
    return [_write(file, results, levels, ports) for file in files]


def _require_capture(file: Path) -> None:
    try:
        with file.open("rb") as opened:
            magic = opened.read(4)
    except OSError as problem:
        raise UserError(f"{file} cannot be read: {problem.strerror}") from problem
    if magic not in _MAGICS:
        raise UserError(
            f"{file}: not of the format {NAME}: neither pcap nor pcapng",
            hint="unpack it, if it is compressed; `tcpdump -w` writes one",
        )


def _write(file: Path, results: StudyDirectory, levels: Mapping[str, str], ports: Sequence[int]) -> str:
    cell = cell_of(levels, NAME)
    repetition = next_repetition(results, cell)
    run = results.run(f"{cell}/{repetition}")
    inside = run.path / "traffic" / file.name
    inside.parent.mkdir(parents=True)
    try:
        os.link(file, inside)
    except OSError:  # another file system, or one without links
        shutil.copyfile(file, inside)
    manifest = Manifest(run.manifest_path)
    about = {"id": f"{cell}/{repetition}", "cell": cell, "repetition": repetition, "order": None}
    manifest.add("run", {**about, "levels": dict(levels)})
    manifest.add("versions", {"brokerlab": brokerlab.__version__})
    manifest.add("broker", {"name": levels.get("broker"), "version": levels.get("version")})
    manifest.add("source", {"format": NAME, "files": [{"name": file.name, "sha256": _sha256(file)}]})
    manifest.add("captures", [{"tap": file.stem, "file": f"traffic/{file.name}", "place": None, "ports": list(ports)}])
    manifest.add("verdict", {"value": "valid", "reasons": [NOT_GUARDED]})
    return f"{cell}/{repetition}"


def _sha256(file: Path) -> str:
    found = hashlib.sha256()
    with file.open("rb") as opened:
        while chunk := opened.read(_CHUNK_BYTES):
            found.update(chunk)
    return found.hexdigest()
