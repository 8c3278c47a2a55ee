"""Reads the published tables, which come with brokerlab as CSV files."""

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from ruamel.yaml import YAML

from brokerlab.errors import UserError
from brokerlab.study.nearest import listed, nearest

Row = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Paper:
    """Where numbers were printed, and what stands behind them."""

    id: str
    authors: str
    title: str
    where: str
    environment: str
    versions: str
    threats: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """One printed table or figure; every row carries its note, which is empty where nothing is suspect."""

    paper: str
    name: str
    about: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def id(self) -> str:
        return f"{self.paper}/{self.name}"

    def where(self, **wanted: str) -> list[Row]:
        """The rows whose columns hold exactly these values."""
        return [row for row in self.rows if all(row[name] == value for name, value in wanted.items())]


def papers() -> tuple[Paper, ...]:
    return tuple(_papers().values())


def paper(paper_id: str) -> Paper:
    known = _papers()
    if paper_id not in known:
        close = nearest(paper_id, known)
        meant = f"did you mean {close}? " if close else ""
        raise UserError(f"no paper is called {paper_id!r}", hint=f"{meant}the papers are {listed(known)}")
    return known[paper_id]


def tables_of(paper_id: str) -> tuple[PublishedTable, ...]:
    """The tables of one paper, in the order of their numbers."""
    paper(paper_id)
    return tuple(table for table in _tables().values() if table.paper == paper_id)


def published_names() -> tuple[str, ...]:
    """Every table as PAPER/TABLE."""
    return tuple(_tables())


def published(name: str) -> PublishedTable:
    """The table called PAPER/TABLE; an unknown one is refused with the nearest name."""
    known = _tables()
    if name not in known:
        close = nearest(name, known)
        meant = f"did you mean {close}? " if close else ""
        raise UserError(f"no published table is called {name!r}", hint=f"{meant}`brokerlab published` lists them")
    return known[name]


@cache
def _papers() -> Mapping[str, Paper]:
    content = _yaml("papers.yaml")
    return {
        number: Paper(
            number,
            about["authors"],
            about["title"],
            about["where"],
            about["environment"],
            about["versions"],
            tuple(about["threats"]),
        )
        for number, about in content.items()
    }


@cache
def _tables() -> Mapping[str, PublishedTable]:
    found = [table for path in sorted(_data(), key=lambda each: each.name) for table in _read(path)]
    order = sorted(found, key=lambda table: (table.paper, *_place(table.name)))
    return {table.id: table for table in order}


def _data() -> list[Any]:
    return [path for path in (files("brokerlab.published") / "data").iterdir() if path.name.endswith(".csv")]


def _read(path: Any) -> Iterator[PublishedTable]:
    """The tables of a file called PAPER_NAME_ABOUT.csv; a file of several figures holds a column that tells them."""
    stem = path.name.removesuffix(".csv")
    paper_id, name, about = stem.split("_", maxsplit=2)
    reader = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8")))
    rows = list(reader)
    columns = tuple(name for name in reader.fieldnames or () if name != "note")
    figures = dict.fromkeys(row["table"] for row in rows) if name.startswith("fig") else None
    about = about.lstrip("_0123456789").replace("_", " ")
    for each in figures or (name,):
        chosen = [row for row in rows if figures is None or row["table"] == each]
        noted = tuple(_with_note(f"{paper_id}/{each}", row) for row in chosen)
        yield PublishedTable(paper_id, each, about, (*columns, "note"), noted)


def _with_note(table: str, row: dict[str, str]) -> Row:
    said = [row.get("note") or "", *(note["note"] for note in _notes(table) if _is_about(note["where"], row))]
    return {**row, "note": "; ".join(text for text in said if text)}


def _is_about(where: Mapping[str, str], row: Row) -> bool:
    return all(row.get(name) == value for name, value in where.items())


@cache
def _notes(table: str) -> Sequence[Mapping[str, Any]]:
    return [note for note in _yaml("notes.yaml") if note["table"] == table]


def _place(name: str) -> tuple[str, int]:
    word = name.rstrip("0123456789")
    return word, int(name.removeprefix(word) or 0)


def _yaml(name: str) -> Any:
    return YAML(typ="safe", pure=True).load((files("brokerlab.published") / name).read_text(encoding="utf-8"))
