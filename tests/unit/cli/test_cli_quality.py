"""`brokerlab quality` as a shell would call it; nothing here starts Spark."""

from pathlib import Path

import pytest
from cli_program import Program

pytestmark = pytest.mark.unit


def test_a_form_that_was_filled_in_wrongly_is_told_before_spark_starts(brokerlab: Program, tmp_path: Path) -> None:
    assert brokerlab("quality", "form", "mine", "--rater", "ann").returncode == 0
    path = tmp_path / "mine-ann-1.yaml"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("protocols: {level: unknown", "protocols: {level: 6"), encoding="utf-8")

    done = brokerlab("quality", "rank", path.name, path.name)

    assert done.returncode == 64
    assert "a level of protocols is 1 to 2" in done.stderr
    assert "the broker is there twice" in done.stderr
    assert "Spark" not in done.stdout


def test_a_classification_that_is_wrong_is_told_with_the_code_of_bad_input(brokerlab: Program) -> None:
    done = brokerlab("run", "classification", "--set", "scenario.measured=prob")

    assert done.returncode == 64
    assert 'did you mean "probe"' in done.stderr
