"""Writing to people: coloured tables on a terminal, plain aligned lines everywhere else.

A log, a pipe and a test get no colour codes, no boxes and no line that is drawn twice.
"""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

_COLOURS = {
    "ok": "green",
    "valid": "green",
    "kept": "green",
    "limited": "yellow",
    "unknown": "yellow",
    "not supported": "yellow",
    "missing": "red",
    "invalid": "red",
    "collapsed": "red",
    "broken": "red",
}

_GAP = 3  # blanks between two columns, as Rich draws them


@dataclass(frozen=True, slots=True)
class Columns:
    """Headings of a table; those in `right` are numbers and stand to the right."""

    headings: tuple[str, ...]
    right: frozenset[str] = frozenset()


def is_terminal() -> bool:
    return sys.stdout.isatty()


def console() -> Console:
    """Standard output, for what only a terminal is shown."""
    return Console(file=sys.stdout, highlight=False)


def say(text: str = "") -> None:
    """One line on standard output, at once, as it is."""
    print(text, flush=True)


def warn(text: str) -> None:
    """One line on standard error, so that it never mixes with a result that is piped on."""
    print(text, file=sys.stderr, flush=True)


def heading(text: str) -> None:
    """A title above what follows."""
    if is_terminal():
        console().print(f"\n[bold]{escape(text)}[/bold]")
    else:
        say(f"\n{text}")


def table(columns: Columns, rows: Sequence[Sequence[str]]) -> None:
    """Rows under their headings; texts that are too long for the terminal go on in the next line."""
    if is_terminal():
        console().print(_rich_table(columns, rows))
    else:
        for line in plain_lines(columns, rows):
            say(line)


def wide_table(columns: Columns, rows: Sequence[Sequence[str]]) -> None:
    """A table of many columns: on a terminal in parts that fit, each with the first column again."""
    if not is_terminal():
        table(columns, rows)
        return
    for part, part_rows in fitting_parts(columns, rows, width=console().width):
        table(part, part_rows)


def plain_lines(columns: Columns, rows: Sequence[Sequence[str]]) -> list[str]:
    """The table as text, columns two blanks apart."""
    widths = _widths(columns, rows)
    return ["  ".join(_aligned(columns, row, widths)).rstrip() for row in (columns.headings, *rows)]


def fitting_parts(
    columns: Columns, rows: Sequence[Sequence[str]], *, width: int
) -> Iterator[tuple[Columns, list[list[str]]]]:
    """The table cut between columns, so that each part is at most `width` wide where its columns allow that."""
    widths = _widths(columns, rows)
    places = [0]
    for place in range(1, len(widths)):
        if len(places) > 1 and sum(widths[other] + _GAP for other in (*places, place)) > width:
            yield _picked(columns, rows, places)
            places = [0]
        places.append(place)
    yield _picked(columns, rows, places)


def _picked(columns: Columns, rows: Sequence[Sequence[str]], places: Sequence[int]) -> tuple[Columns, list[list[str]]]:
    headings = tuple(columns.headings[place] for place in places)
    return Columns(headings, columns.right), [[row[place] for place in places] for row in rows]


def _widths(columns: Columns, rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(len(row[place]) for row in (columns.headings, *rows)) for place in range(len(columns.headings))]


def _aligned(columns: Columns, row: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [
        text.rjust(width) if name in columns.right else text.ljust(width)
        for name, text, width in zip(columns.headings, row, widths, strict=True)
    ]


def _rich_table(columns: Columns, rows: Sequence[Sequence[str]]) -> Table:
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns.headings:
        drawn.add_column(escape(name), justify="right" if name in columns.right else "left", overflow="fold")
    for row in rows:
        drawn.add_row(*(_coloured(text) for text in row))
    return drawn


def _coloured(text: str) -> str:
    colour = _COLOURS.get(text)
    return f"[{colour}]{text}[/{colour}]" if colour else escape(text)
