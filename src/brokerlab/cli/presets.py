"""`brokerlab presets`: the studies that come with brokerlab, and a copy of one to change."""

from pathlib import Path
from typing import Annotated

import typer
from ruamel.yaml import YAML

from brokerlab.cli.progress import duration
from brokerlab.cli.studies import whole_plan
from brokerlab.cli.terminal import Columns, say, table
from brokerlab.errors import UserError
from brokerlab.presets import preset_names, preset_path
from brokerlab.quality.study import collected, is_classification, model_of, read_classification

app = typer.Typer(help="List the named studies, or copy one.", invoke_without_command=True, rich_markup_mode=None)


@app.callback()
def presets(context: typer.Context) -> None:
    """List the studies that come with brokerlab; `presets copy NAME` gives you one to change."""
    if context.invoked_subcommand is None:
        names = ("preset", "brokers", "runs", "time", "question")
        table(Columns(names, right=frozenset({"brokers", "runs"})), [_row(name) for name in preset_names()])
        say("with all of its brokers installed; `brokerlab plan PRESET` says what it takes here")


@app.command()
def copy(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A preset.")],
    file: Annotated[Path | None, typer.Argument(metavar="[FILE]", help="Where to; else NAME.yaml here.")] = None,
) -> None:
    """Copy a preset to a file of yours, which `plan` and `run` take in its place."""
    source = preset_path(name)
    target = file or Path(f"{name}.yaml")
    try:
        with target.open("x", encoding="utf-8") as copied:
            copied.write(source.read_text(encoding="utf-8"))
    except FileExistsError as problem:
        raise UserError(f"{target} exists already, and stays as it is", hint="give another file name") from problem
    except OSError as problem:
        raise UserError(f"{target} cannot be written: {problem.strerror}") from problem
    say(f"{target} is yours: change it, then `brokerlab plan {target}`")


def _row(name: str) -> tuple[str, ...]:
    """The preset with its size and how long it takes."""
    path = preset_path(name)
    if is_classification(path):
        study = read_classification(path, settings=())
        answers, _ = collected(study, model_of(study))
        size = (str(len({answer.broker for answer in answers})), "none", "1 min")
    else:
        plan = whole_plan(name)
        size = (str(len({cell.broker.name for cell in plan.cells})), str(len(plan.runs)), duration(plan.expected_s))
    return (name, *size, _question(path))


def _question(path: Path) -> str:
    content = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    return " ".join(str(content["goals"]["question"]).split())
