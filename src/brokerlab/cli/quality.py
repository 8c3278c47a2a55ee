"""`brokerlab quality`: questionnaires to fill in, the ranking that follows from them, and the audit of it."""

from datetime import UTC, datetime
from json import dumps
from pathlib import Path
from typing import Annotated

import typer

from brokerlab.brokers.base import Found
from brokerlab.brokers.registry import DRIVERS
from brokerlab.cli.terminal import Columns, say, table
from brokerlab.errors import ExitCode, UserError
from brokerlab.presets import preset_path
from brokerlab.quality.form import csv_form, yaml_form
from brokerlab.quality.model import Model, read_model
from brokerlab.quality.record import STEPS, Audit, add_audit, read_record
from brokerlab.quality.study import MEASURED_BY, read_classification
from brokerlab.record.directory import StudyDirectory, open_results
from brokerlab.study.nearest import nearest

app = typer.Typer(help="Questionnaires, scores, ranking.", no_args_is_help=True, rich_markup_mode=None)
ModelOption = Annotated[str, typer.Option("--model", metavar="NAME|FILE", help="The quality model.")]


@app.command()
def form(
    brokers: Annotated[list[str], typer.Argument(metavar="BROKER...", help="What is judged; any name.")],
    rater: Annotated[str, typer.Option("--rater", metavar="NAME", help="Who judges.")] = "me",
    number: Annotated[int, typer.Option("--round", min=1, help="The round.")] = 1,
    model: ModelOption = "iso25010",
    csv: Annotated[bool, typer.Option("--csv", help="One CSV file for all, instead of YAML files.")] = False,
    out: Annotated[Path | None, typer.Option("--out", metavar="FOLDER", help="Where to; else here.")] = None,
) -> None:
    """Write sheets to fill in, with what every level means beside it.

    What is known of brokers that are installed here, such as their QoS levels, is filled in already.
    """
    _refuse_names([*brokers, rater])
    chosen, folder = read_model(model), out or Path()
    known = {name: _known(name, chosen) for name in brokers}
    versions = {name: _version(name) for name in brokers}
    folder.mkdir(parents=True, exist_ok=True)
    if csv:
        text = csv_form(chosen, brokers=versions, rater=rater, number=number, known=known)
        _write(folder / f"sheets-{rater}-{number}.csv", text)
        return
    for name in brokers:
        text = yaml_form(chosen, broker=name, version=versions[name], rater=rater, number=number, known=known[name])
        _write(folder / f"{name}-{rater}-{number}.yaml", text)


def _refuse_names(names: list[str]) -> None:
    """Names become part of a file's name, each once."""
    for name in names:
        if not name.strip() or "/" in name or name.startswith("."):
            raise UserError(f"{name!r} cannot be part of a file name", hint="a name has no / and does not begin with .")
    if twice := sorted({name for name in names[:-1] if names[:-1].count(name) > 1}):
        raise UserError(f"a broker is there twice: {', '.join(twice)}")


def _write(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as problem:
        raise UserError(
            f"{path} exists already, and stays as it is", hint="give another folder with --out"
        ) from problem
    except OSError as problem:
        raise UserError(f"{path} cannot be written: {problem.strerror}") from problem
    say(f"{path}: fill it in, then `brokerlab quality rank {path}`")


def _known(name: str, model: Model) -> dict[str, list[str]]:
    if name not in DRIVERS or not isinstance(DRIVERS[name].find(), Found) or "qos_levels" not in model.ids:
        return {}
    return {"qos_levels": [str(int(qos)) for qos in DRIVERS[name].abilities.qos]}


def _version(name: str) -> str:
    found = DRIVERS[name].find() if name in DRIVERS else None
    return found.version if isinstance(found, Found) else ""


@app.command()
def rank(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Sheets, or folders of them.")],
    model: ModelOption = "iso25010",
    top: Annotated[int, typer.Option("--top", min=1, help="So many are chosen to be measured.")] = 3,
    measured: Annotated[
        str, typer.Option("--measured", metavar="BY", help=f"What counts instead of opinion: {', '.join(MEASURED_BY)}.")
    ] = MEASURED_BY[0],
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Where to; else results/quality.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Set what is in DIR aside, and start again.")] = False,
) -> ExitCode:
    """Rank the brokers of any number of sheets, on Spark: tables, record and report."""
    if measured not in MEASURED_BY:
        close = nearest(measured, MEASURED_BY)
        raise UserError(
            f"--measured {measured}: must be {', '.join(MEASURED_BY)}", hint=f"did you mean {close}?" if close else ""
        )
    for file in files:
        if not file.exists():
            raise UserError(f"{file}: no such file or folder", hint="`brokerlab quality form` writes a sheet")
    from brokerlab.cli.classification import classify, with_sheets  # noqa: PLC0415 - loads what ranking needs

    base = read_classification(preset_path("classification"))
    places = tuple(str(file.resolve()) for file in files)
    study = with_sheets(base, sheets={"sheets": places}, model=model, select=top, measured=measured)
    text = _study_text(places, model=model, top=top, measured=measured)
    return classify(study, study_text=text, out=out or Path("results") / "quality", fresh=fresh)


def _study_text(places: tuple[str, ...], *, model: str, top: int, measured: str) -> str:
    """The same question as a study, so that it can be run again."""
    return "\n".join(
        [
            "brokerlab: 1",
            "study: quality",
            "kind: classification",
            f"goals: {{question: How do these brokers rank?, rank_by: score, select: {top}}}",
            f"metrics: {{model: {dumps(model)}}}",
            f"scenario: {{sheets: {{sheets: {dumps(list(places))}}}, measured: {measured}}}",
            "",
        ]
    )


@app.command()
def audit(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="What `run classification` or `rank` wrote.")],
    back_to: Annotated[
        int | None, typer.Option("--back-to", min=1, max=7, help="The step that must be repeated.")
    ] = None,
    reason: Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why.")] = "",
    by: Annotated[str, typer.Option("--by", metavar="NAME", help="Who says so.")] = "a reviewer",
) -> ExitCode:
    """Say in the record whether the results are satisfactory, or which step must be repeated (step 6).

    Without --back-to and --reason the record is shown.
    """
    results = open_results(directory)
    record = read_record(results.path)
    if back_to is None and not reason:
        _show(results, record["passes"])
        last = record["passes"][-1]["audits"][-1] if record["passes"] else {"satisfactory": False}
        return ExitCode.VALID if last["satisfactory"] else ExitCode.CHECK_FAILED
    if back_to is not None and not reason:
        raise UserError(
            "--back-to needs a --reason", hint='for example --reason "the anchors of installation are not clear"'
        )
    now = datetime.now(UTC).isoformat(timespec="seconds")
    add_audit(results.path, Audit(back_to is None, back_to, (reason,), by), at=now)
    say("noted: satisfactory" if back_to is None else f"noted: back to step {back_to}, {STEPS[back_to - 1]}")
    return ExitCode.VALID


def _show(results: StudyDirectory, passes: list[dict[str, object]]) -> None:
    say(f"{results.path}: {len(passes)} passes through the seven steps")
    rows = [
        (
            str(one["pass"]),
            str(word["at"]),
            str(word["by"]),
            "satisfactory" if word["satisfactory"] else f"back to step {word['back_to']}",
            "; ".join(word["reasons"]),
        )
        for one in passes
        for word in one["audits"]  # type: ignore[attr-defined]
    ]
    table(Columns(("pass", "at", "by", "audit", "reasons"), right=frozenset({"pass"})), rows)


@app.command("model")
def show_model(
    model: Annotated[str, typer.Argument(metavar="[NAME|FILE]", help="A quality model.")] = "iso25010",
) -> None:
    """Print a quality model: its features, where they stand in the standard, and their weights."""
    chosen = read_model(model)
    say(f"{chosen.name}: {chosen.title}, score of at most {len(chosen.features)}")
    rows = [
        (each.id, each.characteristic, each.subcharacteristic, each.group, f"L/{each.roof}", each.formula)
        for each in chosen.features
    ]
    table(Columns(("feature", "characteristic", "subcharacteristic", "group", "weight", "metric")), rows)
