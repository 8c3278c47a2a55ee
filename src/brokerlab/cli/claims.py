"""`brokerlab claims`: what the papers say in words, held against their own numbers, or against ours."""

from pathlib import Path
from typing import Annotated

import typer

from brokerlab.cli.progress import steps
from brokerlab.cli.terminal import heading, say
from brokerlab.errors import UserError
from brokerlab.pipeline.java import use_java
from brokerlab.pipeline.tables import read_table, table_as_csv, table_as_json
from brokerlab.published.claims import read_claims
from brokerlab.published.library import paper
from brokerlab.record.directory import StudyDirectory, open_results

_VERDICTS = ("does not hold", "undecided", "holds")


def claims(
    directories: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[DIR]...", help="Results of ours; without them, the papers' own numbers."),
    ] = None,
    paper_id: Annotated[str | None, typer.Option("--paper", metavar="PAPER", help="Only claims of this one.")] = None,
    file: Annotated[Path | None, typer.Option("--file", metavar="FILE", help="Claims of your own (YAML).")] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Where the table goes; else the first DIR, or results/claims."),
    ] = None,
    csv: Annotated[bool, typer.Option("--csv", help="As CSV.")] = False,
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Hold the papers' claims against numbers, by rules, on Spark."""
    if csv and json:
        raise UserError("--csv and --json exclude each other")
    if paper_id is not None:
        paper(paper_id)
    chosen = [claim for claim in read_claims(file) if paper_id in (None, claim.paper)]
    if not chosen:
        raise UserError("there is no claim to check")
    ours = [open_results(directory) for directory in directories or ()]
    results = StudyDirectory(out) if out else ours[0] if ours else StudyDirectory(Path("results") / "claims")
    use_java()
    from brokerlab.pipeline.claims import write_claims  # noqa: PLC0415 - loads Spark
    from brokerlab.pipeline.session import open_session  # noqa: PLC0415

    with steps("claims") as step:
        step("starting Spark")
        with open_session(app="brokerlab-claims") as spark:
            step(f"{len(chosen)} claims")
            write_claims(spark, chosen, ours=ours, to=results)
    content = read_table(results, "claims")
    if csv or json:
        say((table_as_csv(content) if csv else table_as_json(content)).rstrip("\n"))
    else:
        _print(content.to_pylist(), results)


def _print(rows: list[dict[str, object]], results: StudyDirectory) -> None:
    for verdict in _VERDICTS:
        chosen = [row for row in rows if row["verdict"] == verdict]
        if not chosen:
            continue
        heading(f"{verdict}: {len(chosen)}")
        for row in chosen:
            say(f"{row['claim']} ({row['section']}): {row['text']}")
            if row["numbers"]:
                say(f"    {row['numbers']}")
    say()
    say(f"table: {results.table('claims')}")
