"""`brokerlab brokers install` and `remove`: brokers into the user's cache, and out of it again."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated

import typer
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column

from brokerlab.brokers.base import Broker, Found
from brokerlab.brokers.cache import place_of
from brokerlab.brokers.install import installer
from brokerlab.brokers.install.place import is_locked
from brokerlab.brokers.install.workshop import Teller
from brokerlab.brokers.registry import DRIVERS, driver
from brokerlab.brokers.source import Crate, Elsewhere, Shipped
from brokerlab.cli.progress import duration
from brokerlab.cli.terminal import console, is_terminal, say, warn
from brokerlab.errors import ExitCode, LabError, UserError

_DRAWN_PER_S = 4.0
_SLOW = "takes far longer than five minutes to build (some 40 on two cores)"

Names = Annotated[list[str] | None, typer.Argument(metavar="NAME...", help="Brokers, as NAME or NAME@VERSION.")]


def install(
    names: Names = None,
    every: Annotated[bool, typer.Option("--all", help="All that take less than five minutes each.")] = False,
    again: Annotated[bool, typer.Option("--again", help="Also what is installed already.")] = False,
) -> ExitCode:
    """Install brokers into your cache, in the versions that their drivers name.

    One that is interrupted leaves nothing half-done. Only Debian's packages need root, and no service is started.
    """
    if bool(names) == every:
        raise UserError("say which brokers, or --all", hint="see `brokerlab brokers` for their names")
    chosen = _quick_ones() if every else _named(names or [])
    installer.clear_leftovers()
    failed = [broker.name for broker in _by_turns(chosen) if not _install(broker, is_again=again)]
    if failed:
        warn(f"brokerlab: not installed: {', '.join(failed)}")
    return ExitCode.CHECK_FAILED if failed else ExitCode.VALID


def remove(names: Names = None) -> ExitCode:
    """Remove brokers that `brokerlab brokers install` has installed."""
    if not names:
        raise UserError("say which brokers", hint="see `brokerlab brokers` for their names")
    brokers = [driver(name) for name in names]
    installer.clear_leftovers()
    for broker in brokers:
        with _telling(broker.name) as teller:
            was_there = installer.remove(broker, teller)
        say(f"{broker.name}: removed" if was_there else f"{broker.name}: was not installed")
    return ExitCode.VALID


def _named(names: Sequence[str]) -> list[Broker]:
    """The brokers of these names; what stands against any of them is said before anything is done."""
    chosen = [driver(name) for name in dict.fromkeys(names)]
    refused = [f"{broker.name} {reason}" for broker in chosen if (reason := installer.refusal(broker))]
    if refused:
        raise UserError("\n".join(refused))
    for broker in chosen:
        if _is_slow(broker):
            warn(f"{broker.name} {_SLOW}")
    return chosen


def _quick_ones() -> list[Broker]:
    """All that can be installed here in less than five minutes each; says what is left out and why."""
    chosen = []
    elsewhere = [broker.name for broker in DRIVERS.values() if isinstance(broker.source, Elsewhere)]
    if elsewhere:
        say(f"not to be installed from any registry: {', '.join(elsewhere)}; `brokerlab brokers NAME` says what to do")
    for broker in DRIVERS.values():
        if isinstance(broker.source, Shipped | Elsewhere):
            continue
        reason = f"{_SLOW}: only by its name" if _is_slow(broker) else installer.refusal(broker)
        if reason is None:
            chosen.append(broker)
        else:
            say(f"{broker.name}: left out, {reason}")
    return chosen


def _by_turns(brokers: Sequence[Broker]) -> Iterator[Broker]:
    """First those that nobody else is installing just now: two calls at once share the work."""
    waiting = list(brokers)
    while waiting:
        free = next((broker for broker in waiting if not is_locked(broker.name)), waiting[0])
        waiting.remove(free)
        yield free


def _is_slow(broker: Broker) -> bool:
    return isinstance(broker.source, Crate) and broker.source.is_slow


def _install(broker: Broker, *, is_again: bool) -> bool:
    begin_s = time.monotonic()
    try:
        with _telling(broker.name) as teller:
            outcome = installer.install(broker, teller, is_again=is_again)
    except LabError as error:
        warn(f"{broker.name}: {error.message}")
        warn(f"{broker.name}: {error.hint}" if error.hint else f"{broker.name}: not installed")
        return False
    took = duration(time.monotonic() - begin_s)
    say(f"{broker.name}: {_told(broker, outcome.found)}, {took if outcome.is_new else 'was installed already'}")
    return True


def _told(broker: Broker, found: Found) -> str:
    where = place_of(broker.name)
    return f"{found.version} in {where if where.is_dir() else found.program}"


@contextmanager
def _telling(name: str) -> Iterator[Teller]:
    """On a terminal one line that moves; elsewhere a line a step."""
    if not is_terminal():
        yield _Lines(name)
        return
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", table_column=Column(no_wrap=True, overflow="ellipsis")),
        TimeElapsedColumn(),
        TextColumn("{task.fields[last]}", style="dim", table_column=Column(no_wrap=True, overflow="ellipsis", ratio=1)),
        console=console(),
        expand=True,
        refresh_per_second=_DRAWN_PER_S,
        transient=True,
    )
    with bar:
        yield _Bar(name, bar, bar.add_task(escape(name), total=None, last=""))


class _Lines:
    def __init__(self, name: str) -> None:
        self._name, self._said = name, ""

    def step(self, doing: str) -> None:
        if doing != self._said:
            say(f"{self._name}: {doing} ...")
        self._said = doing

    def line(self, text: str) -> None:
        """Is in the log."""


class _Bar:
    def __init__(self, name: str, bar: Progress, task: TaskID) -> None:
        self._name, self._bar, self._task = name, bar, task

    def step(self, doing: str) -> None:
        self._bar.update(self._task, description=escape(f"{self._name}: {doing}"), last="")

    def line(self, text: str) -> None:
        self._bar.update(self._task, last=escape(text))
