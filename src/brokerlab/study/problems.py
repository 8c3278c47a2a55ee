"""What can be wrong with a study, and the error that tells all of it at once.

    RuleError   one value breaks one rule; raised where the value is read, which knows no file
    Problem      the same with its place: file, line, key
    StudyError   every problem of a study together

A reader raises RuleError; file.py turns it into a Problem with the line of the key.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NoReturn

from brokerlab.errors import UserError
from brokerlab.study.nearest import listed, nearest

_LONGEST_VALUE = 60  # characters of a value that a message repeats


class RuleError(ValueError):
    """A value that breaks a rule; a ValueError, so that pydantic collects it."""

    def __init__(self, rule: str, *, nearest_valid: str | None = None) -> None:
        super().__init__(rule)
        self.rule = rule
        self.nearest = nearest_valid


@dataclass(frozen=True, slots=True)
class Problem:
    """One broken rule and its place."""

    file: str  # as the user gave it, or the option that held the value, such as "--set"
    line: int | None  # from 1
    key: str  # dotted, such as "scenario.variables.qos[2]"; empty when it is about the whole file
    value: str | None  # as written; None when the key itself is the matter
    rule: str
    nearest: str | None = None

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        value = None if self.value is None else f'"{_shortened(self.value)}"'
        text = ": ".join(part for part in (place, self.key, value, self.rule) if part)
        return text if self.nearest is None else f'{text}; did you mean "{self.nearest}"?'


class StudyError(UserError):
    """A study with problems: one line of the message for each, in the order of the file."""

    def __init__(self, problems: Iterable[Problem], *, hint: str = "") -> None:
        self.problems = tuple(sorted(set(problems), key=_reading_order))
        super().__init__("\n".join(str(problem) for problem in self.problems), hint=hint)


def refuse_unknown(kind: str, name: str, *, known: Iterable[str]) -> NoReturn:
    """Refuses a name that is not known, with the nearest known name or the list of them."""
    names = list(known)
    close = nearest(name, names)
    rule = f"unknown {kind}"
    raise RuleError(rule if close else f"{rule}; known: {listed(names)}", nearest_valid=close)


def check_name(kind: str, name: object, *, known: Iterable[str], later: Iterable[str] = ()) -> str:
    """The name, if it is known; a name that is planned (`later`) is refused with that reason."""
    names = list(known)
    if not isinstance(name, str):
        raise RuleError(f"must be the name of a {kind}: {listed(names)}")
    if name in names:
        return name
    if name in later:
        raise RuleError(f"this {kind} is not available yet; this version has {listed(names)}")
    refuse_unknown(kind, name, known=names)


def _reading_order(problem: Problem) -> tuple[bool, str, int, str, str]:
    """The file's problems by line, then those of options."""
    return problem.file.startswith("--"), problem.file, problem.line or 0, problem.key, problem.rule


def _shortened(text: str) -> str:
    one_line = " ".join(text.split())
    return one_line if len(one_line) <= _LONGEST_VALUE else one_line[: _LONGEST_VALUE - 1] + "…"
