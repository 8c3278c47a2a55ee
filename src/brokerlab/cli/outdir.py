"""The directory of results before a run: whose it is, what it holds, and what may happen to it.

    holds                   plain run      --resume                    --fresh
    nothing                 start          start                       start
    runs of the same plan   refuse         make what is missing        set aside, start
    other results of ours   refuse         refuse, with difference     set aside, start
    somebody else's files   refuse         refuse                      refuse

Nothing is ever deleted: --fresh moves results to `.earlier/<name>-<k>` beside them.
"""

import fcntl
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import IO, Any

from brokerlab.errors import UserError
from brokerlab.record.directory import StudyDirectory

_OURS = {"study.yaml", "plan.json", "probes", "runs", "tables", "report.html", ".lock", ".partials"}
_RESULTS = {"runs", "tables", "report.html"}
_NOTHING = object()
_LONGEST = 60  # characters of a value in a message


class Mode(StrEnum):
    PLAIN = ""
    RESUME = "--resume"
    FRESH = "--fresh"


@contextmanager
def opened(results: StudyDirectory, mode: Mode, *, plan_text: str, study_text: str) -> Iterator[None]:
    """The directory, ready for the runs of this plan, and ours alone while the block lasts."""
    with ExitStack() as stack:
        with _told_as_user_error(results.path):
            _refuse_foreign(results.path)
            if mode is Mode.FRESH and _holds_results(results.path):
                with _locked(results.path):
                    _set_aside(results.path.resolve())
            results.path.mkdir(parents=True, exist_ok=True)
            stack.enter_context(_locked(results.path))
            if _holds_results(results.path):
                _refuse_unless_same_plan(results, mode, plan_text)
            else:
                results.study.write_text(study_text, encoding="utf-8")
                results.plan.write_text(plan_text, encoding="utf-8")
        yield


@contextmanager
def _told_as_user_error(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        raise UserError(f"{path} cannot be written: {problem}", hint="give another directory with --out") from problem


def _names(path: Path) -> set[str]:
    if path.exists() and not path.is_dir():
        raise UserError(f"{path} is a file", hint="give a directory with --out")
    return {entry.name for entry in path.iterdir()} if path.is_dir() else set()


def _holds_results(path: Path) -> bool:
    return bool(_names(path) & _RESULTS)


def _refuse_foreign(path: Path) -> None:
    names = _names(path)
    is_ours = not names or "plan.json" in names or names <= _OURS
    if not is_ours:
        raise UserError(
            f"{path} holds files that are not results of brokerlab, such as {min(names - _OURS)}",
            hint="give another directory with --out",
        )


def _refuse_unless_same_plan(results: StudyDirectory, mode: Mode, plan_text: str) -> None:
    if mode is not Mode.RESUME:
        raise UserError(
            f"{results.path} holds results already",
            hint="--resume makes the runs that are missing, --fresh sets the results aside and starts again, "
            "--out DIR writes elsewhere",
        )
    if not results.plan.exists():
        raise UserError(f"{results.path} has no plan.json to resume", hint="start again with --fresh")
    earlier = results.plan.read_text(encoding="utf-8")
    if earlier != plan_text:
        raise UserError(
            f"{results.path} was made by another plan: {first_difference(earlier, plan_text)}",
            hint="give the study and the options of then, or start again with --fresh",
        )


def first_difference(earlier_json: str, now_json: str) -> str:
    """Where two plans differ first, in words: "seed is 1 there and 2 here"."""
    try:
        earlier = json.loads(earlier_json)
    except ValueError:
        return "its plan.json cannot be read"
    return _difference(earlier, json.loads(now_json), "") or "the same content, written differently"


def _difference(earlier: Any, now: Any, key: str) -> str | None:
    if isinstance(earlier, dict) and isinstance(now, dict):
        names = list(dict.fromkeys([*earlier, *now]))
        pairs = [(earlier.get(name, _NOTHING), now.get(name, _NOTHING), f"{key}.{name}") for name in names]
    elif isinstance(earlier, list) and isinstance(now, list):
        longest = max(len(earlier), len(now))
        pairs = [(*(_at(side, place) for side in (earlier, now)), f"{key}[{place}]") for place in range(longest)]
    else:
        return None if earlier == now else f"{key.lstrip('.')} is {_text(earlier)} there and {_text(now)} here"
    return next((found for pair in pairs if (found := _difference(*pair))), None)


def _at(side: list[Any], place: int) -> Any:
    return side[place] if place < len(side) else _NOTHING


def _text(value: Any) -> str:
    if value is _NOTHING:
        return "absent"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 2] + "…" + text[-1]  # its closing quote or bracket


def _set_aside(path: Path) -> None:
    target = _free_name(path.parent / ".earlier", path.name)
    target.parent.mkdir(exist_ok=True)
    path.rename(target)


def _free_name(folder: Path, name: str) -> Path:
    number = 1
    while (candidate := folder / f"{name}-{number}").exists():
        number += 1
    return candidate


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Keeps a second brokerlab out; the kernel lets go of the lock also after kill -9."""
    with (path / ".lock").open("w", encoding="ascii") as file:
        _lock(file, path)
        yield


def _lock(file: IO[str], path: Path) -> None:
    try:
        # POSIX locks are not handed to forked children, so an orphaned worker cannot keep one.
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as problem:
        raise UserError(
            f"another brokerlab is working in {path}", hint="wait for it, or write elsewhere with --out"
        ) from problem
