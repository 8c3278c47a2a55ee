"""Modules and functions stay small; the five longest of each are printed with `pytest -s`."""

import ast
from pathlib import Path

import brokerlab

ROOT = Path(brokerlab.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
LONGEST_MODULE_LINES = 400
LONGEST_FUNCTION_LINES = 70

Sized = tuple[int, str]


def modules() -> list[Sized]:
    return [(len(path.read_text(encoding="utf-8").splitlines()), str(path.relative_to(ROOT))) for path in FILES]


def functions() -> list[Sized]:
    return [
        ((node.end_lineno or node.lineno) - node.lineno + 1, f"{path.relative_to(ROOT)}:{node.lineno} {node.name}")
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def print_longest(sizes: list[Sized]) -> None:
    print()
    for lines, name in sorted(sizes, reverse=True)[:5]:
        print(f"{lines:5d} {name}")


def test_no_module_is_too_long() -> None:
    sizes = modules()
    print_longest(sizes)

    assert [entry for entry in sizes if entry[0] > LONGEST_MODULE_LINES] == []


def test_no_function_is_too_long() -> None:
    sizes = functions()
    print_longest(sizes)

    assert [entry for entry in sizes if entry[0] > LONGEST_FUNCTION_LINES] == []
