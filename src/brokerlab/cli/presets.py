"""`brokerlab presets`: the studies that come with brokerlab, and a copy of one to change."""

from pathlib import Path
from typing import Annotated, Any

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
    needed = [(path, target.with_name(path.name)) for path in _files_of(source)]
    for original, beside in needed:
        if beside.exists() and beside.read_bytes() != original.read_bytes():
            raise UserError(f"{beside}, which {name} sends, exists already and is another", hint="give another folder")
    _copy(source, target)
    for original, beside in needed:
        if not beside.exists():
            _copy(original, beside)
    more = "".join(f", with {beside}, which it sends" for _, beside in needed)
    say(f"{target} is yours{more}: change it, then `brokerlab plan {target}`")


def _copy(source: Path, target: Path) -> None:
    try:
        with target.open("xb") as copied:
            copied.write(source.read_bytes())
    except FileExistsError as problem:
        raise UserError(f"{target} exists already, and stays as it is", hint="give another file name") from problem
    except OSError as problem:
        raise UserError(f"{target} cannot be written: {problem.strerror}") from problem


def _files_of(preset: Path) -> list[Path]:
    """The files beside a preset whose records it sends; a study looks for them beside itself."""
    scenario = _content(preset).get("scenario", {})
    payload = scenario.get("workload", {}).get("payload") if isinstance(scenario, dict) else None
    name = payload.get("file") if isinstance(payload, dict) else None
    return [preset.with_name(name)] if isinstance(name, str) else []


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
    return " ".join(str(_content(path)["goals"]["question"]).split())


def _content(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    return content
