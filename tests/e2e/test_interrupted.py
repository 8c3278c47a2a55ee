"""A study that is killed in the middle: what is finished stays whole, nothing runs on, --resume makes the rest."""

import hashlib
import json
import signal

import pytest
from lab_program import Started, brokerlab, survivors, write_study

pytestmark = pytest.mark.e2e

RUNS = 3


@pytest.fixture
def study(tmp_path):
    return write_study(tmp_path, brokers={"embedded": "{driver: amqtt}"}, qos="0, 1, 2", measure="1.5 s")


def manifests(folder):
    return sorted((folder / "out" / "runs").glob("*/*/manifest.json"))


def finished(folder):
    return [path for path in manifests(folder) if "verdict" in json.loads(path.read_text())]


def digest(folder):
    """Every file of a run directory, by name and content."""
    return {
        str(path.relative_to(folder)): hashlib.blake2b(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def stop_in_second_run(folder, study, number):
    """Sends a signal while the second run is going on; the exit code and the processes it had."""
    started = Started("run", study, "--out", "out", "--stop-after", "runs", folder=folder)
    started.wait_for("the first run", lambda: len(finished(folder)) == 1)
    started.wait_for("the second run's workers", lambda: len(list((folder / "out").glob("runs/*/*/deliveries"))) == 2)
    family = started.family()
    return started.end(number), family, started.log.read_text()


def test_kill_9_leaves_finished_runs_whole_nothing_running_and_resume_makes_the_rest(tmp_path, study, monkeypatch):
    state, temporary = tmp_path / "state", tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setenv("BROKERLAB_STATE", str(state))
    monkeypatch.setenv("TMPDIR", str(temporary))
    _, family, _ = stop_in_second_run(tmp_path, study, signal.SIGKILL)
    assert family
    assert survivors(family) == []
    assert list(temporary.iterdir())
    assert brokerlab("clean", folder=tmp_path).returncode == 0
    assert list(state.iterdir()) == list(temporary.iterdir()) == []
    first = finished(tmp_path)[0].parent
    before = digest(first)

    resumed = brokerlab("run", study, "--out", "out", "--resume", "--stop-after", "runs", folder=tmp_path)

    assert resumed.returncode == 0, resumed.stderr
    assert digest(first) == before
    assert len(finished(tmp_path)) == RUNS
    assert [path.parent.name for path in manifests(tmp_path) if path not in finished(tmp_path)] == ["1.cut-1"]
    assert list(state.iterdir()) == list(temporary.iterdir()) == []  # a normal end leaves nothing either


def test_ctrl_c_ends_with_130_says_how_to_resume_and_leaves_nothing_running(tmp_path, study):
    code, family, said = stop_in_second_run(tmp_path, study, signal.SIGINT)

    assert code == 130
    assert survivors(family) == []
    assert "1 of 3 runs are finished" in said
    assert "--resume" in said
    assert "Traceback" not in said


def test_a_finished_study_is_not_run_again_by_resume(tmp_path, study):
    assert brokerlab("run", study, "--out", "out", "--stop-after", "runs", folder=tmp_path).returncode == 0
    before = digest(tmp_path / "out" / "runs")

    again = brokerlab("run", study, "--out", "out", "--resume", "--stop-after", "runs", folder=tmp_path)

    assert again.returncode == 0
    assert digest(tmp_path / "out" / "runs") == before
