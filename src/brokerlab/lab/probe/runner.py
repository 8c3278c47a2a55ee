"""Runs the checks against one broker, many at once where they only wait, the dangerous ones one by one at the end.

A broker that stops to serve new clients would fail all that is left, and nobody would know at what. One of ours is
started again then, and what had failed beside others is tried again one by one.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from threading import Event

from brokerlab.lab.probe.check import PROTOCOL_OF, Check, Finding
from brokerlab.lab.probe.checks import FIRST
from brokerlab.lab.probe.room import Place, Room
from brokerlab.lab.probe.served import STILL, serves
from brokerlab.lab.probe.values import NotKept, Result
from brokerlab.load.packets import LEVELS

_AT_ONCE = 16
_LONGEST_S = 40.0
_LONGEST_SEARCH_S = 300.0

Watch = Callable[[int, int], None]  # how many of how many are done
Renew = Callable[[], Place]
_Task = tuple[int, Check]
_DOUBTFUL = (Result.BROKEN, Result.UNKNOWN)


def probe(
    place: Place, checks: Sequence[Check], *, watch: Watch = lambda *_: None, renew: Renew | None = None
) -> list[Finding]:
    """What every check found with every version, in the order of the checks.

    A version that the broker does not speak is one finding of `connect.accepted`, and nothing else is tried with it.
    `renew` starts the broker again, and gives the place where it is then.
    """
    stop = Event()
    found = [run_check(place, FIRST, level, stop=stop) for level in LEVELS.values()]
    spoken = {LEVELS[finding.protocol] for finding in found if finding.result in (Result.KEPT, Result.BROKEN)}
    others = [check for check in checks if check is not FIRST]
    tasks = [(level, check) for check in others for level in check.sections if level in spoken]
    total = len(found) + len(tasks)
    beside = []
    for finding in _together(place, tasks, stop):
        beside.append(finding)
        watch(len(found) + len(beside), total)
    turn = _Turn(place, stop, renew)
    found += turn.again(beside) if spoken else beside
    for level, check in tasks:
        if check.is_alone:
            found.append(turn.take(level, check))
            watch(len(found), total)
    if spoken:
        found.append(turn.last(min(spoken)))
    order = {check.id: number for number, check in enumerate((FIRST, STILL, *others))}
    return sorted(found, key=lambda finding: (order[finding.check.id], finding.protocol))


def run_check(place: Place, check: Check, level: int, *, stop: Event | None = None) -> Finding:
    """What one check finds with one version."""
    began = time.monotonic()
    longest_s = _LONGEST_SEARCH_S if check.group == "payload" else _LONGEST_S
    with Room(place, level=level, name=check.id, stop=stop or Event(), longest_s=longest_s) as room:
        try:
            result, reason = Result.KEPT, check.run(room)
        except NotKept as other:
            result, reason = other.result, str(other)
        evidence = room.evidence()
    return Finding(check, PROTOCOL_OF[level], result, reason, evidence, time.monotonic() - began)


def _together(place: Place, tasks: list[_Task], stop: Event) -> Iterator[Finding]:
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="probe") as pool:
        try:
            running = [
                pool.submit(run_check, place, check, level, stop=stop) for level, check in tasks if not check.is_alone
            ]
            for future in as_completed(running):
                yield future.result()
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise


class _Turn:
    """One check after the other, each on a broker that serves."""

    def __init__(self, place: Place, stop: Event, renew: Renew | None) -> None:
        self._place, self._stop, self._renew = place, stop, renew
        self._stalled: list[str] = []

    def take(self, level: int, check: Check) -> Finding:
        finding = run_check(self._place, check, level, stop=self._stop)
        if finding.result in _DOUBTFUL and self._has_stalled(level):
            self._stalled.append(f"{check.id} ({finding.protocol})")
            finding = replace(finding, reason=f"{finding.reason}; no new client was served after it")
        return finding

    def again(self, beside: Sequence[Finding]) -> list[Finding]:
        """What was found side by side; in doubt, if new clients are not served any more, what is found alone."""
        doubtful = [finding for finding in beside if finding.result in _DOUBTFUL]
        if not doubtful or not self._has_stalled(LEVELS[doubtful[0].protocol]):
            return list(beside)
        self._stalled.append("checks side by side")
        if self._renew is None:
            return list(beside)
        certain = [finding for finding in beside if finding.result not in _DOUBTFUL]
        return certain + [self.take(LEVELS[finding.protocol], finding.check) for finding in doubtful]

    def last(self, level: int) -> Finding:
        """Whether new clients were served all the time."""
        finding = run_check(self._place, STILL, level, stop=self._stop)
        if not self._stalled:
            return finding
        reason = f"new clients were no longer served after {', '.join(self._stalled)}"
        return replace(finding, result=Result.BROKEN, reason=reason)

    def _has_stalled(self, level: int) -> bool:
        is_told = self._renew is None and bool(self._stalled)  # nothing can be done about it, so once is enough
        if is_told or serves(self._place, level, self._stop):
            return False
        if self._renew is not None:
            self._place = self._renew()
        return True
