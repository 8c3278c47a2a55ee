import pytest

from brokerlab.cli.progress import LineWatcher, TimeLeft, duration, steps, watching
from brokerlab.study.plan import Cell, PlannedRun
from brokerlab.study.values import BrokerChoice, Workload

pytestmark = pytest.mark.unit

CELL = Cell("broker-a.qos-0", (("broker", "a"), ("qos", 0)), BrokerChoice("a", "amqtt"), Workload())
RUN = PlannedRun(CELL, repetition=2, order=1, seed=1)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "0 s"), (45, "45 s"), (60, "1 min"), (213, "3 min 33 s"), (3600, "1 h 0 min"), (7_500, "2 h 5 min")],
)
def test_a_duration_in_words(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_time_left_comes_from_the_plan_and_then_from_the_runs() -> None:
    left = TimeLeft(100.0, 10)
    assert left.text(10) == "about 1 min 40 s left"

    left.ended(4.0)
    left.ended(6.0)
    assert left.text(8) == "about 40 s left"
    assert left.text(0) == "done"


def test_without_a_terminal_a_run_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with watching(10.0, 12) as watcher:
        watcher.run_started(RUN, 3, 12)
        watcher.phase_started("measure", 5.0)
        watcher.run_ended(RUN, "invalid", ["late", "busy"], 2.04)

    assert isinstance(watcher, LineWatcher)
    expected = "[ 3/12] broker-a.qos-0/2: invalid (late; busy), 2.0 s; about 18 s left\n"
    assert capsys.readouterr().out == expected


def test_on_a_terminal_bars_are_drawn_and_invalid_runs_stay(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("brokerlab.cli.progress.is_terminal", lambda: True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    with watching(10.0, 12) as watcher:
        watcher.run_started(RUN, 3, 12)
        watcher.phase_started("measure", 5.0)
        watcher.run_ended(RUN, "invalid", ["late"], 2.0)
        watcher.run_started(RUN, 4, 12)
    drawn = capsys.readouterr().out

    assert "run 4 of 12" in drawn
    assert "broker-a.qos-0/2: invalid (late), 2.0 s" in drawn


def test_steps_without_a_terminal_are_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with steps("analysis") as step:
        step("latency")

    assert capsys.readouterr().out == "analysis ...\n  latency\nanalysis: 0 s\n"
