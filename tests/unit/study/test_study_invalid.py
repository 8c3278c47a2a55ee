"""Every invalid example says behind `#!` what must be found in that line, and nothing else may be found."""

from pathlib import Path

import pytest

from brokerlab.errors import ExitCode
from brokerlab.study.file import read_study
from brokerlab.study.problems import StudyError

EXAMPLES = sorted((Path(__file__).parent / "invalid").glob("*.yaml"))


def expected_lines(path):
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        for expected in line.split("#! ")[1:]:
            yield f"{path}:{number}: {expected.strip().replace('FOLDER', str(path.parent))}"


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_invalid_example_names_every_problem_with_its_line(path, drivers):
    with pytest.raises(StudyError) as caught:
        read_study(path, drivers=drivers)

    assert sorted(caught.value.message.splitlines()) == sorted(expected_lines(path))
    assert caught.value.exit_code == ExitCode.BAD_INPUT
    assert caught.value.hint


def test_invalid_examples_are_there():
    assert len(EXAMPLES) >= 9


def test_problems_are_in_the_order_of_the_file(drivers):
    with pytest.raises(StudyError) as caught:
        read_study(EXAMPLES[-1], drivers=drivers)

    lines = [problem.line for problem in caught.value.problems]
    assert lines == sorted(lines)
