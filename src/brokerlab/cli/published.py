"""`brokerlab published`: the tables of the five papers as printed, with notes of suspect values."""

import csv as csv_files
import json as json_text
import sys
from typing import Annotated

import typer

from brokerlab.cli.terminal import Columns, say, table, wide_table
from brokerlab.errors import UserError
from brokerlab.published.library import PublishedTable, paper, papers, published, tables_of


def show_published(
    paper_id: Annotated[str | None, typer.Argument(metavar="[PAPER]", help="000 to 004, or PAPER/TABLE.")] = None,
    name: Annotated[str | None, typer.Argument(metavar="[TABLE]", help="A table of it, such as table6.")] = None,
    csv: Annotated[bool, typer.Option("--csv", help="As CSV.")] = False,
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Print what a paper prints; without a table, the list of them.

    Suspect values stand as printed, with a note.
    """
    if csv and json:
        raise UserError("--csv and --json exclude each other")
    if paper_id is not None and name is None and "/" in paper_id:
        paper_id, name = paper_id.split("/", maxsplit=1)
    if paper_id is not None and name is not None:
        paper(paper_id)
        _print(published(f"{paper_id}/{name}"), csv=csv, json=json)
        return
    if csv or json:
        raise UserError("--csv and --json need a table", hint="for example `brokerlab published 002 table6 --csv`")
    _list(paper_id)


def _list(paper_id: str | None) -> None:
    chosen = papers() if paper_id is None else (paper(paper_id),)
    rows = [
        (each.id, each.about, str(len(each.rows)), str(sum(bool(row["note"]) for row in each.rows)))
        for one in chosen
        for each in tables_of(one.id)
    ]
    for one in chosen:
        say(f"{one.id}  {one.authors}: {one.title} ({one.where})")
        if paper_id is not None:
            say(f"     environment: {one.environment}")
            say(f"     versions: {one.versions}")
            for threat in one.threats:
                say(f"     threat: {threat}")
    say()
    table(Columns(("table", "about", "rows", "noted"), right=frozenset({"rows", "noted"})), rows)


def _print(content: PublishedTable, *, csv: bool, json: bool) -> None:
    if json:
        say(json_text.dumps([dict(row) for row in content.rows], indent=2, ensure_ascii=False))
        return
    if csv:
        writer = csv_files.writer(sys.stdout, lineterminator="\n")
        writer.writerow(content.columns)
        writer.writerows([row[name] for name in content.columns] for row in content.rows)
        return
    shown = tuple(name for name in content.columns if name not in ("paper", "table"))
    wide_table(Columns(shown), [[row[name] or "-" for name in shown] for row in content.rows])
