from pathlib import Path

import pytest
from cli_program import Program

from brokerlab.presets import preset_path

pytestmark = pytest.mark.unit


def test_presets_are_listed_with_their_questions(brokerlab: Program) -> None:
    done = brokerlab("presets")

    assert done.returncode == 0
    assert any(line.split(maxsplit=1)[0] == "first-light" and " Which " in line for line in done.stdout.splitlines())


def test_a_copy_is_the_preset_and_can_be_planned(brokerlab: Program, tmp_path: Path) -> None:
    done = brokerlab("presets", "copy", "first-light")

    assert done.returncode == 0
    assert (tmp_path / "first-light.yaml").read_bytes() == preset_path("first-light").read_bytes()
    assert brokerlab("plan", "first-light.yaml").returncode == 0


def test_a_copy_never_overwrites(brokerlab: Program, tmp_path: Path) -> None:
    mine = tmp_path / "mine.yaml"
    mine.write_text("mine", encoding="utf-8")
    done = brokerlab("presets", "copy", "first-light", "mine.yaml")

    assert done.returncode == 64
    assert "mine.yaml exists already" in done.stderr
    assert mine.read_text(encoding="utf-8") == "mine"


def test_a_copy_to_nowhere_is_refused(brokerlab: Program) -> None:
    done = brokerlab("presets", "copy", "first-light", "no/such/folder.yaml")

    assert done.returncode == 64
    assert "no/such/folder.yaml cannot be written" in done.stderr
