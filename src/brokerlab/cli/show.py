"""`brokerlab show`: a table of results, on the terminal or for another program."""

import sys
from typing import Annotated, Any

import typer

from brokerlab.cli.studies import ResultsArgument
from brokerlab.cli.terminal import Columns, say, table, wide_table
from brokerlab.errors import UserError
from brokerlab.pipeline.tables import TABLE_NAMES, TABLES_APART, read_table, table_as_csv, table_as_json
from brokerlab.record.directory import StudyDirectory, open_results
from brokerlab.study.nearest import listed

_NULL = "-"


def show(
    directory: ResultsArgument,
    name: Annotated[
        str | None, typer.Argument(metavar="[TABLE]", help="A table; without it, the list of them.")
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="As CSV, every digit.")] = False,
    json: Annotated[bool, typer.Option("--json", help="As JSON, every digit.")] = False,
) -> None:
    """Print a table of DIR; needs neither Spark nor Java."""
    results = open_results(directory)
    if csv and json:
        raise UserError("--csv and --json exclude each other")
    if name is None:
        _refuse_formats_without_table(csv or json)
        _list_tables(results)
        return
    content = read_table(results, name)
    if csv or json:
        sys.stdout.write(table_as_csv(content) if csv else table_as_json(content))
    else:
        _print(content)


def _refuse_formats_without_table(is_asked: bool) -> None:
    if is_asked:
        raise UserError("--csv and --json need a table", hint=f"one of {listed(TABLE_NAMES)}")


def _list_tables(results: StudyDirectory) -> None:
    there = [name for name in (*TABLE_NAMES, *TABLES_APART) if results.table(name).is_dir()]
    if not there:
        raise UserError(f"{results.path} has no tables yet", hint=f"make them with `brokerlab analyze {results.path}`")
    rows = [(name, str(read_table(results, name).num_rows)) for name in there]
    table(Columns(("table", "rows"), right=frozenset({"rows"})), rows)


def _print(content: Any) -> None:
    """Numbers to six digits; --csv has them all."""
    names = tuple(content.column_names)
    rows = content.to_pylist(maps_as_pydicts="strict")
    numbers = frozenset(name for name in names if any(isinstance(row[name], int | float) for row in rows))
    wide_table(Columns(names, right=numbers), [[_text(row[name]) for name in names] for row in rows])
    if not rows:
        say("(no rows)")


def _text(value: Any) -> str:
    if value is None:
        return _NULL
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        return "; ".join(_text(item) for item in value) or _NULL
    if isinstance(value, dict):
        return ", ".join(f"{key}={_text(item)}" for key, item in value.items()) or _NULL
    return str(value)
