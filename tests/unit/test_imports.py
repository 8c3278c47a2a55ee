"""Imports point one way, modules make no circle, and only the pipeline knows Spark."""

import ast
import itertools
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import brokerlab

ROOT = Path(brokerlab.__file__).parent

# Which parts a part may import, beside itself, those in FOR_ALL and the package's version.
MEASURING = {"study", "stats", "record"}
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "inventory": set(),
    "inside": set(),
    "controlgroups": set(),
    "machinecode": set(),
    "brokerlab": {"machinecode"},
    "study": set(),
    "stats": set(),
    "presets": {"study"},
    "published": {"study"},
    "quality": {"study", "stats", "published"},
    "record": {"study", "stats"},
    "brokers": MEASURING,
    "network": MEASURING,
    "load": MEASURING,
    "bridge": MEASURING | {"load"},  # its wire (docs/design/0008)
    "lab": MEASURING | {"brokers", "network", "load", "bridge"},
    "pipeline": MEASURING | {"quality", "published"},
    "imports": MEASURING,
    "report": MEASURING | {"pipeline", "published"},
    "web": MEASURING | {"pipeline", "report"},
}
ALLOWED["cli"] = set(ALLOWED)
FOR_ALL = {"errors", "inventory", "inside", "controlgroups", "brokerlab"}


def module_name(path: Path) -> str:
    parts = ("brokerlab", *path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(ROOT.rglob("*.py"))}


def part_of(module: str) -> str:
    """`brokerlab.study.plan` belongs to "study", the package itself to "brokerlab"."""
    return module.split(".")[1] if "." in module else "brokerlab"


@cache
def imported_names(path: Path) -> tuple[str, ...]:
    """Every module that a file imports, also inside functions."""
    return tuple(_imported_names(path))


def _imported_names(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), filename=str(path))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: write the whole name of an imported module"
            for alias in node.names:
                member = f"{node.module}.{alias.name}"
                yield member if member in MODULES else str(node.module)


def our_imports(module: str) -> set[str]:
    return {name for name in imported_names(MODULES[module]) if name.split(".")[0] == "brokerlab"} - {module}


def wrong_arrows(module: str) -> list[str]:
    part = part_of(module)
    allowed = ALLOWED[part] | FOR_ALL | {part}
    return [f"{module} imports {name}" for name in sorted(our_imports(module)) if part_of(name) not in allowed]


def test_every_part_has_its_place_in_the_order() -> None:
    parts = {part_of(module) for module in MODULES} - {"brokerlab"}

    assert parts <= set(ALLOWED), f"say in ALLOWED what these may import: {sorted(parts - set(ALLOWED))}"


def test_imports_point_one_way() -> None:
    wrong = [arrow for module in MODULES if part_of(module) != "brokerlab" for arrow in wrong_arrows(module)]

    assert not wrong, "\n".join(wrong)


def test_modules_make_no_circle() -> None:
    try:
        TopologicalSorter({module: our_imports(module) for module in MODULES}).prepare()
    except CycleError as circle:
        pytest.fail("a circle of imports: " + " <- ".join(circle.args[1]))


def test_only_the_pipeline_knows_spark() -> None:
    users = {
        module for module, path in MODULES.items() if any(n.split(".")[0] == "pyspark" for n in imported_names(path))
    }

    assert {part_of(module) for module in users} <= {"pipeline"}, sorted(users)


@pytest.mark.parametrize("module", ["brokerlab.cli.show", "brokerlab.cli.report", "brokerlab.report.report"])
def test_reading_results_loads_no_spark(module: str) -> None:
    """`show` and `report` read Parquet; they must not pay for Spark, nor need Java."""
    script = f"import sys, {module}; sys.exit('pyspark' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_the_order_itself_has_no_circle() -> None:
    order = list(TopologicalSorter(ALLOWED).static_order())

    assert order[-1] == "cli"


def test_no_two_test_files_share_a_name():
    """pytest imports a test file by its bare name: with two of one name it collects neither."""
    names = sorted(path.name for path in Path(__file__).parents[1].rglob("test_*.py"))

    assert [name for name, following in itertools.pairwise(names) if name == following] == []
