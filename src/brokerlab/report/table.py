"""A table of the page as a value: columns with units, and rows of marked cells in blocks."""

from dataclasses import dataclass

MARKS = ("", "best", "good", "bad", "warn", "quiet", "code")


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    unit: str = ""
    is_number: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """One cell of a table: what it says, what stands small below it, and how it is marked."""

    text: str
    below: str = ""
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    columns: tuple[Column, ...]
    blocks: tuple[tuple[tuple[Entry, ...], ...], ...]  # rows that belong together, apart from the next

    @property
    def row_count(self) -> int:
        return sum(len(block) for block in self.blocks)


def text(title: str, unit: str = "") -> Column:
    return Column(title, unit)


def number(title: str, unit: str = "") -> Column:
    return Column(title, unit, is_number=True)
