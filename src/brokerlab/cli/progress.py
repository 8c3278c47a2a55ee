"""Shows how far a study is while it runs: bars on a terminal, a line a run everywhere else.

The screen is drawn twice a second only: what draws it runs on the cores that are measured.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import RenderableType
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn

from brokerlab.cli.terminal import console, is_terminal, say
from brokerlab.lab.watching import Watcher
from brokerlab.record.reasons import in_short
from brokerlab.study.plan import PlannedRun

_DRAWN_PER_S = 2.0


class TimeLeft:
    """Estimates what is left from what the runs took; before the first one ended, from the plan."""

    def __init__(self, expected_s: float, runs: int) -> None:
        self._guess_s = expected_s / runs if runs else 0.0
        self._ended_s: list[float] = []

    def ended(self, seconds: float) -> None:
        self._ended_s.append(seconds)

    def text(self, runs_left: int) -> str:
        each_s = sum(self._ended_s) / len(self._ended_s) if self._ended_s else self._guess_s
        return f"about {duration(each_s * runs_left)} left" if runs_left else "done"


def duration(seconds: float) -> str:
    """A time as people say it: "45 s", "3 min 20 s", "2 h 5 min"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min"


@contextmanager
def watching(expected_s: float, runs: int, *, plainly: bool = False) -> Iterator[Watcher]:
    """A watcher that fits where the output goes; plainly: without bars, also on a terminal."""
    left = TimeLeft(expected_s, runs)
    if plainly or not is_terminal():
        yield LineWatcher(left)
        return
    with _bars() as progress:
        yield BarWatcher(progress, left)


class LineWatcher:
    """One line a run, written when it ended."""

    def __init__(self, left: TimeLeft) -> None:
        self._left = left
        self._number, self._total = 0, 0

    def run_started(self, run: PlannedRun, number: int, total: int) -> None:  # noqa: ARG002 - the line comes at the end
        self._number, self._total = number, total

    def phase_started(self, name: str, seconds: float) -> None:
        """Phases are shorter than anybody reads a log."""

    def run_ended(self, run: PlannedRun, verdict: str, reasons: Sequence[str], seconds: float) -> None:
        self._left.ended(seconds)
        say(f"{_ended_line(run, verdict, reasons, seconds, (self._number, self._total))}; {self._rest()}")

    def _rest(self) -> str:
        return self._left.text(self._total - self._number)


class BarWatcher:
    """One bar for the study, one for the phase; runs that are not valid stay on the screen above."""

    def __init__(self, progress: Progress, left: TimeLeft) -> None:
        self._progress, self._left = progress, left
        self._study: TaskID | None = None
        self._phase: TaskID | None = None
        self._number, self._total = 0, 0

    def run_started(self, run: PlannedRun, number: int, total: int) -> None:
        self._number, self._total = number, total
        if self._study is None:
            self._study = self._progress.add_task("", total=total, note="")
        self._progress.update(
            self._study,
            completed=number - 1,
            description=f"run {number} of {total}",
            note=self._left.text(total - number + 1),
        )
        self._next_phase(run.id, "starting", 0.0)

    def phase_started(self, name: str, seconds: float) -> None:
        self._next_phase(self._run, name, seconds)

    def run_ended(self, run: PlannedRun, verdict: str, reasons: Sequence[str], seconds: float) -> None:
        self._left.ended(seconds)
        if self._study is not None:
            self._progress.update(self._study, completed=self._number)
        if verdict != "valid":
            line = _ended_line(run, verdict, reasons, seconds, (self._number, self._total))
            self._progress.console.print(f"[red]{escape(line)}[/red]")

    def _next_phase(self, run_id: str, name: str, seconds: float) -> None:
        self._run = run_id
        if self._phase is not None:
            self._progress.remove_task(self._phase)
        self._phase = self._progress.add_task(
            name, total=seconds or None, note=escape(run_id), ends_s=time.monotonic() + seconds if seconds else None
        )


class _TimedProgress(Progress):
    """Bars that fill by the clock: a phase's length is known, and nobody is asked while it lasts."""

    def get_renderables(self) -> Iterable[RenderableType]:
        for task in self.tasks:
            if task.fields.get("ends_s") is not None and task.total is not None:
                task.completed = min(task.total, task.total - (task.fields["ends_s"] - time.monotonic()))
        return super().get_renderables()


def _bars() -> Progress:
    return _TimedProgress(
        SpinnerColumn(),
        TextColumn("{task.description:<14}"),
        BarColumn(bar_width=30),
        TextColumn("{task.fields[note]}"),
        console=console(),
        refresh_per_second=_DRAWN_PER_S,
        transient=True,
    )


@contextmanager
def steps(title: str) -> Iterator["Steps"]:
    """Shows the named steps of something whose length is not known, such as the analysis."""
    begin_s = time.monotonic()
    if is_terminal():
        with _bars() as progress:
            yield Steps(progress, progress.add_task(title, total=None, note=""))
    else:
        say(f"{title} ...")
        yield Steps(None, None)
    say(f"{title}: {duration(time.monotonic() - begin_s)}")


class Steps:
    """Told the name of each step as it begins; without a bar every step is a line."""

    def __init__(self, progress: Progress | None, task: TaskID | None) -> None:
        self._progress, self._task = progress, task

    def __call__(self, name: str) -> None:
        if self._progress is None or self._task is None:
            say(f"  {name}")
        else:
            self._progress.update(self._task, note=escape(name))


def _ended_line(run: PlannedRun, verdict: str, reasons: Sequence[str], seconds: float, place: tuple[int, int]) -> str:
    number, total = place
    why = f" ({in_short(reasons)})" if reasons else ""
    return f"[{number:>{len(str(total))}}/{total}] {run.id}: {verdict}{why}, {seconds:.1f} s"
