"""docs/coverage.md: every id of the requirements once, and every test that it names is there."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
PAGE = (TESTS.parent / "docs" / "coverage.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| ([MBSCXF]-\d\d) \| .+? \| (.+) \|$", PAGE, flags=re.MULTILINE)
NAMED = sorted(set(re.findall(r"`((?:brokers|cluster|e2e|networks|pipeline|unit)/[^`]*)`", PAGE)))
IDS = {
    **{"M": [*range(1, 7), *range(10, 19), *range(20, 29)], "B": [*range(1, 9), *range(10, 15), *range(20, 24)]},
    **{"S": [*range(1, 8), *range(10, 15)], "C": [*range(1, 9)], "X": [*range(1, 16)], "F": [*range(1, 28)]},
}


@cache
def functions_of(path: Path) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}


def test_every_id_has_one_row():
    assert [name for name, _ in ROWS] == [f"{letter}-{number:02}" for letter, all_ in IDS.items() for number in all_]


@pytest.mark.parametrize("named", NAMED)
def test_what_is_named_is_there(named):
    file, _, test = named.partition("::")

    assert (TESTS / file).is_file()
    assert not test or test in functions_of(TESTS / file)


@pytest.mark.parametrize(("name", "shown"), ROWS)
def test_every_id_is_shown_or_says_why_not(name, shown):
    is_shown = any(f"`{named}`" in shown for named in NAMED)

    assert is_shown or "not here, because" in shown, name
