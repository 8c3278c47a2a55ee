"""What may happen to a directory of results before a run; the table is in the module's docstring."""

import subprocess
import sys
from pathlib import Path

import pytest

from brokerlab.cli.outdir import Mode, first_difference, opened
from brokerlab.errors import UserError
from brokerlab.record.directory import StudyDirectory

pytestmark = pytest.mark.unit

PLAN = '{"seed": 1, "runs": ["a/1", "b/1"]}'


@pytest.fixture
def results(tmp_path: Path) -> StudyDirectory:
    return StudyDirectory(tmp_path / "results" / "tiny")


def open_and_close(results: StudyDirectory, mode: Mode, plan: str = PLAN) -> None:
    with opened(results, mode, plan_text=plan, study_text="study"):
        pass


def fill(results: StudyDirectory) -> Path:
    """One finished run, as far as these rules look."""
    open_and_close(results, Mode.PLAIN)
    manifest = results.run("a/1").manifest_path
    manifest.parent.mkdir(parents=True)
    manifest.write_text('{"format": 1, "verdict": {}}', encoding="utf-8")
    return manifest


@pytest.mark.parametrize("mode", list(Mode))
def test_an_empty_place_is_filled(results: StudyDirectory, mode: Mode) -> None:
    open_and_close(results, mode)

    assert results.plan.read_text(encoding="utf-8") == PLAN
    assert results.study.read_text(encoding="utf-8") == "study"


@pytest.mark.parametrize("made", ["runs", "tables"])
def test_results_are_not_overwritten(results: StudyDirectory, made: str) -> None:
    (results.path / made).mkdir(parents=True)

    with pytest.raises(UserError, match="holds results already") as problem:
        open_and_close(results, Mode.PLAIN)
    assert all(option in problem.value.hint for option in ("--resume", "--fresh", "--out"))


def test_a_start_that_came_to_no_run_can_be_repeated(results: StudyDirectory) -> None:
    open_and_close(results, Mode.PLAIN)
    open_and_close(results, Mode.PLAIN, plan='{"seed": 2}')

    assert results.plan.read_text(encoding="utf-8") == '{"seed": 2}'


def test_resume_keeps_everything(results: StudyDirectory) -> None:
    manifest = fill(results)
    open_and_close(results, Mode.RESUME)

    assert manifest.exists()


def test_resume_refuses_another_plan_and_says_what_differs(results: StudyDirectory) -> None:
    fill(results)

    with pytest.raises(UserError, match="seed is 1 there and 2 here"):
        open_and_close(results, Mode.RESUME, plan=PLAN.replace('"seed": 1', '"seed": 2'))


def test_resume_needs_a_plan(results: StudyDirectory) -> None:
    fill(results)
    results.plan.unlink()

    with pytest.raises(UserError, match=r"no plan\.json"):
        open_and_close(results, Mode.RESUME)


def test_fresh_sets_aside_and_loses_nothing(results: StudyDirectory) -> None:
    for _ in range(2):
        fill(results)
        open_and_close(results, Mode.FRESH)
    kept = sorted(path.relative_to(results.path.parent) for path in results.path.parent.glob(".earlier/*/runs/a/1/*"))

    assert not (results.path / "runs").exists()
    assert kept == [Path(f".earlier/tiny-{number}/runs/a/1/manifest.json") for number in (1, 2)]


@pytest.mark.parametrize("mode", list(Mode))
def test_other_peoples_files_are_left_alone(results: StudyDirectory, mode: Mode) -> None:
    results.path.mkdir(parents=True)
    (results.path / "letter.txt").write_text("dear", encoding="utf-8")
    (results.path / "study.yaml").write_text("mine", encoding="utf-8")

    with pytest.raises(UserError, match=r"not results of brokerlab, such as letter\.txt"):
        open_and_close(results, mode)
    assert results.study.read_text(encoding="utf-8") == "mine"


def test_a_file_in_the_place_is_refused(results: StudyDirectory) -> None:
    results.path.parent.mkdir()
    results.path.write_text("", encoding="utf-8")

    with pytest.raises(UserError, match="is a file"):
        open_and_close(results, Mode.PLAIN)


def test_a_place_that_cannot_be_made_is_refused() -> None:
    with pytest.raises(UserError, match="cannot be written"):
        open_and_close(StudyDirectory(Path("/proc/nothing/here")), Mode.PLAIN)


@pytest.mark.parametrize("mode", [Mode.RESUME, Mode.FRESH])
def test_two_at_once_are_kept_apart(results: StudyDirectory, mode: Mode) -> None:
    fill(results)
    script = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print(); input()"
    command = [sys.executable, "-c", script, str(results.path / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout
        other.stdout.readline()
        with pytest.raises(UserError, match="another brokerlab is working in"):
            open_and_close(results, mode)
        other.communicate(b"\n")
    open_and_close(results, mode)


@pytest.mark.parametrize(
    ("earlier", "now", "said"),
    [
        ('{"a": {"b": [1, 2]}}', '{"a": {"b": [1, 3]}}', "a.b[1] is 2 there and 3 here"),
        ('{"runs": [1]}', '{"runs": [1, 2]}', "runs[1] is absent there and 2 here"),
        ('{"left_out": []}', '{"left_out": ["x"]}', 'left_out[0] is absent there and "x" here'),
        ('{"a": 1}', "{}", "a is 1 there and absent here"),
        ('{"a": 1}', '{"a":1}', "the same content, written differently"),
        ("{", "{}", "its plan.json cannot be read"),
    ],
)
def test_the_first_difference_of_two_plans_in_words(earlier: str, now: str, said: str) -> None:
    assert first_difference(earlier, now) == said
