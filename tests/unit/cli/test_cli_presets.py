import re
from pathlib import Path

import pytest
from cli_program import Program

from brokerlab.presets import preset_names, preset_path

pytestmark = pytest.mark.unit


def test_presets_are_listed_with_size_time_and_question(brokerlab: Program) -> None:
    done = brokerlab("presets")
    lines = {line.split(maxsplit=1)[0]: line for line in done.stdout.splitlines()}

    assert done.returncode == 0
    assert set(lines) >= set(preset_names())
    assert re.fullmatch(r"stress +7 +42 +\d+ min.* Which broker .*", lines["stress"])
    assert re.fullmatch(r"classification +\d+ +none +1 min +Which brokers .*", lines["classification"])


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


def test_a_copy_comes_with_the_file_whose_records_it_sends(brokerlab: Program, tmp_path: Path) -> None:
    done = brokerlab("presets", "copy", "cloud-contact", "mine.yaml")

    assert done.returncode == 0
    assert "with cloud-day.csv, which it sends" in done.stdout
    assert (tmp_path / "cloud-day.csv").read_bytes() == preset_path("cloud").with_name("cloud-day.csv").read_bytes()

    (tmp_path / "cloud-day.csv").write_text("mine\n", encoding="utf-8")
    again = brokerlab("presets", "copy", "cloud-contact", "other.yaml")

    assert again.returncode == 64
    assert "cloud-day.csv, which cloud-contact sends, exists already and is another" in again.stderr
    assert not (tmp_path / "other.yaml").exists()
