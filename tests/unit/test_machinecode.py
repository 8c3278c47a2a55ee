"""No machine code outlives the loops that it was made of."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import brokerlab
from brokerlab.machinecode import FOLDER, SOURCES, keep_apart

pytestmark = pytest.mark.unit
ROOT = Path(brokerlab.__file__).parent


def imports_numba(path):
    names = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Import | ast.ImportFrom)]
    return any((getattr(node, "module", None) or node.names[0].name).split(".")[0] == "numba" for node in names)


def test_every_file_with_compiled_loops_is_known():
    assert sorted(SOURCES) == sorted(str(path.relative_to(ROOT)) for path in ROOT.rglob("*.py") if imports_numba(path))


def test_numba_keeps_our_code_where_it_was_told():
    """Asked of a process of its own: here something else may have imported Numba before us."""
    program = "from brokerlab.load import wire; import numba; print(numba.config.CACHE_DIR)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    folder = Path(done.stdout.strip())
    assert folder.name.startswith("brokerlab-")
    assert list(folder.rglob("wire.*.nbi"))


def test_another_state_of_any_loop_has_another_folder_and_the_same_state_the_same(tmp_path, monkeypatch):
    for name in SOURCES:
        (tmp_path / "src" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "src" / name).write_text("loop")
    monkeypatch.setenv(FOLDER, str(tmp_path / "mine"))
    folders = []
    for changed in ("", *SOURCES, ""):
        if changed:
            (tmp_path / "src" / changed).write_text("loop of today")
        keep_apart(tmp_path / "src")
        folders.append(Path(os.environ[FOLDER]))

    assert folders[-1] == folders[-2]
    assert len(set(folders)) == len(SOURCES) + 1
    assert {folder.parent for folder in folders} == {tmp_path / "mine"}


def test_a_loop_whose_callee_changed_in_another_file_is_compiled_anew(tmp_path):
    """What Numba itself does not see; two modules of a package of ours, in the places of two of SOURCES."""
    for name in SOURCES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    caller = (
        "from numba import njit\nfrom load.wire import called\n"
        "@njit('i8()', cache=True)\ndef call():\n    return called()\n"
    )
    (tmp_path / "load/ring.py").write_text(caller)
    program = (
        "import sys; from pathlib import Path; from brokerlab.machinecode import keep_apart; "
        "keep_apart(Path.cwd()); sys.path.insert(0, '.'); from load.ring import call; print(call())"
    )
    said = []
    for number in (1, 2):
        (tmp_path / "load/wire.py").write_text(
            f"from numba import njit\n@njit('i8()', cache=True)\ndef called():\n    return {number}\n"
        )
        environment = os.environ | {FOLDER: str(tmp_path / "cache")}
        done = subprocess.run(
            [sys.executable, "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
        )
        said.append(done.stdout.strip())

    assert said == ["1", "2"]
