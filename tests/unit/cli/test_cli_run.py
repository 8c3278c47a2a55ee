"""What `brokerlab run` refuses before it starts anything; the runs themselves are tests/e2e."""

from pathlib import Path

import pytest
from cli_program import Program

from brokerlab.cli import run as run_command
from brokerlab.cli.outdir import Mode, opened
from brokerlab.cli.progress import LineWatcher, TimeLeft
from brokerlab.cli.run import Request, StopAfter
from brokerlab.cli.studies import Prepared, prepare
from brokerlab.errors import UserError
from brokerlab.lab.run import make_run
from brokerlab.record.directory import StudyDirectory
from brokerlab.study.plan import plan_json
from brokerlab.study.written import study_yaml

pytestmark = pytest.mark.unit


def cut_off(study: Path, *settings: str) -> tuple[Prepared, StudyDirectory]:
    """Results of the study's plan with one run, which was cut off."""
    prepared = prepare(str(study), settings=settings, levels=[])
    results = StudyDirectory(study.parent / "results" / "tiny")
    plan_text, study_text = plan_json(prepared.plan, prepared.study), study_yaml(prepared.study)
    with opened(results, Mode.PLAIN, plan_text=plan_text, study_text=study_text):
        manifest = results.run("broker-embedded.qos-0/1").manifest_path
        manifest.parent.mkdir(parents=True)
        manifest.write_text('{"format": 1}', encoding="utf-8")
    return prepared, results


@pytest.fixture
def results(study: Path) -> Path:
    return cut_off(study)[1].path


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "--resume makes the runs that are missing"),
        (["--resume", "--fresh"], "exclude each other"),
        (["--resume", "--set", "deploy.seed=2"], "was made by another plan"),
        (["--resume", "--only", "qos=1"], "was made by another plan"),
        (["--fresh", "--set", "deploy.sed=2"], 'did you mean "seed"'),
        (["--fresh", "--set", "system.limits.cores=[4095]"], "not limited here: core 4095 is not for us to use"),
        (["--out", "tiny.yaml"], "is a file"),
        (["--out", "."], "not results of brokerlab"),
    ],
)
def test_what_cannot_start_is_64_and_changes_nothing(
    brokerlab: Program, study: Path, results: Path, options: list[str], said: str
) -> None:
    before = files_in(study.parent)
    done = brokerlab("run", str(study), *options)

    assert (done.returncode, done.stdout) == (64, "")
    assert said in done.stderr
    assert files_in(study.parent) == before


def test_missing_java_and_missing_broker_are_told_together(monkeypatch: pytest.MonkeyPatch, study: Path) -> None:
    def no_broker(*_: object, **__: object) -> None:
        raise UserError("broker embedded is not on this machine", hint="get a broker")

    monkeypatch.setattr(run_command, "prepare", no_broker)
    monkeypatch.setattr("brokerlab.pipeline.java.find_java", lambda: None)

    with pytest.raises(UserError) as problem:
        run_command.run(str(study))
    assert "embedded" in problem.value.message
    assert "Java 17" in problem.value.message


def test_without_the_tables_no_java_is_needed(monkeypatch: pytest.MonkeyPatch, study: Path) -> None:
    monkeypatch.setattr("brokerlab.pipeline.java.find_java", lambda: None)
    request = Request(str(study), None, [], [])

    assert run_command._prepared(request, needs_java=False).study.name == "tiny"
    with pytest.raises(UserError, match="Java 17"):
        run_command._prepared(request, needs_java=True)


def test_the_command_to_go_on_with_can_be_pasted_into_a_shell() -> None:
    request = Request("my study.yaml", Path("out"), ["goals.question=Why?"], ["qos=1"], StopAfter.RUNS)

    assert request.resume_command() == (
        "brokerlab run 'my study.yaml' --resume --out out --set 'goals.question=Why?' --only qos=1 --stop-after runs"
    )


def test_a_file_that_changed_after_the_plan_is_refused_and_nothing_is_written(brokerlab: Program, study: Path) -> None:
    """By those who go on with results, by those who take their study, and by a run whose plan was made before."""
    file, payload = study.parent / "day.txt", "scenario.workload.payload={file: day.txt}"
    file.write_text("one\ntwo\n" * 100, encoding="utf-8")  # more than the warm-up takes
    prepared, results = cut_off(study, payload)
    file.write_text("one\nthree\n" * 100, encoding="utf-8")
    before = files_in(study.parent)

    resumed = brokerlab("run", str(study), "--set", payload, "--resume")
    again = brokerlab("run", str(results.path / "study.yaml"), "--out", "again")
    with pytest.raises(UserError, match=r"day.txt has changed") as caught:
        make_run(prepared.plan.runs[0], prepared.study, results.run("a/1"), watcher=LineWatcher(TimeLeft(1.0, 1)))

    assert (resumed.returncode, again.returncode, caught.value.exit_code) == (64, 64, 64)
    assert "was made by another plan: cells[0].workload.payload.replay.sha256 is" in resumed.stderr
    assert len([line for line in again.stderr.splitlines() if "day.txt has changed: its SHA-256 is" in line]) == 1
    assert files_in(study.parent) == before
