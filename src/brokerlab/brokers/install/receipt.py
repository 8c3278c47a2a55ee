"""The receipt of an installed broker: what it is, where it came from, and the hashes of what it runs."""

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from brokerlab.brokers.cache import RECEIPT
from brokerlab.brokers.source import Source

_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Made:
    """What an install made: the broker's version, and the files that it stands on."""

    version: str
    files: tuple[Path, ...]


def write_receipt(folder: Path, *, driver: str, source: Source, made: Made) -> None:
    """The last file of an install."""
    receipt = {
        "format": _FORMAT,
        "driver": driver,
        "version": made.version,
        "source": described(source),
        "installed": datetime.now(UTC).isoformat(timespec="seconds"),
        "size_bytes": sum(path.lstat().st_size for path in folder.rglob("*") if not path.is_dir()),
        "sha256": {str(path.relative_to(folder)): sha256(path) for path in made.files},
    }
    (folder / RECEIPT).write_text(json.dumps(receipt, indent=2) + "\n", encoding="utf-8")


def read_receipt(folder: Path) -> dict[str, Any]:
    """What the receipt says; empty when it cannot be read."""
    try:
        receipt = json.loads((folder / RECEIPT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return receipt if isinstance(receipt, dict) else {}


def described(source: Source) -> dict[str, Any]:
    """A source as JSON; equal when the same would be installed, on whatever machine."""
    fields = {each.name: _plain(getattr(source, each.name)) for each in dataclasses.fields(source)}
    return {"kind": type(source).__name__, **fields}


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _plain(value: object) -> object:
    if isinstance(value, Path):
        return {"name": value.name, "sha256": sha256(value)}
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Iterable) and not isinstance(value, str):
        return list(value)
    return value
