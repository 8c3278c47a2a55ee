"""`--only factor=level`: which cells of a plan are wanted."""

from collections.abc import Mapping, Sequence

from brokerlab.study.factors import FACTORS
from brokerlab.study.nearest import listed, nearest
from brokerlab.study.problems import Problem, RuleError, StudyError
from brokerlab.study.values import Level

OPTION = "--only"

Levels = tuple[tuple[str, Level], ...]
Selection = Mapping[str, frozenset[Level]]  # factor -> wanted levels


def is_selected(levels: Levels, selection: Selection) -> bool:
    chosen = dict(levels)
    return all(chosen[factor] in wanted for factor, wanted in selection.items())


def read_selection(texts: Sequence[str], *, cells: Sequence[Levels], left_out: Mapping[str, str]) -> Selection:
    """The wanted levels by factor; names that the plan does not have are refused, all at once."""
    selection: dict[str, frozenset[Level]] = {}
    problems: list[Problem] = []
    for text in texts:
        try:
            factor, level = _read(text, cells=cells, left_out=left_out)
        except RuleError as broken:
            problems.append(Problem(OPTION, None, "", text, broken.rule, broken.nearest))
        else:
            selection[factor] = selection.get(factor, frozenset()) | {level}
    if problems:
        raise StudyError(problems, hint="`brokerlab plan` shows the factors and their levels")
    return selection


def _read(text: str, *, cells: Sequence[Levels], left_out: Mapping[str, str]) -> tuple[str, Level]:
    factor, equals, written = (part.strip() for part in text.partition("="))
    if not equals or not written:
        raise RuleError("must be factor=level, such as qos=1")
    factors = list(dict.fromkeys(name for levels in cells for name, _ in levels))
    if factor not in factors:
        raise _unknown("factor of this study", factor, factors, shown="{}=" + written)
    if factor == "broker" and written in left_out:
        raise RuleError(f"this broker is left out here: {left_out[written]}")
    return factor, _level(factor, written, levels=list(dict.fromkeys(dict(cell)[factor] for cell in cells)))


def _level(factor: str, written: str, *, levels: Sequence[Level]) -> Level:
    """The level that is meant, by its text, its name in a path, or an equal quantity in another unit."""
    kind = FACTORS[factor]
    by_text = {text: level for level in levels for text in (str(kind.written(level)), kind.label(level))}
    if written in by_text:
        return by_text[written]
    try:
        level = kind.parse(written)
    except RuleError:
        level = written
    if level in levels:
        return level
    raise _unknown(f"level of {factor}", written, [str(kind.written(level)) for level in levels], shown=factor + "={}")


def _unknown(kind: str, name: str, known: Sequence[str], *, shown: str) -> RuleError:
    close = nearest(name, known)
    if close is None:
        return RuleError(f"unknown {kind}; known: {listed(known)}")
    return RuleError(f"unknown {kind}", nearest_valid=shown.format(close))
