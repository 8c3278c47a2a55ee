"""Runs the checks against one broker, many at once where they only wait, the dangerous ones one by one at the end."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import chain
from threading import Event

from brokerlab.lab.probe.check import PROTOCOL_OF, Check, Finding
from brokerlab.lab.probe.checks import FIRST
from brokerlab.lab.probe.room import Place, Room
from brokerlab.lab.probe.values import NotKept, Result
from brokerlab.load.packets import LEVELS

_AT_ONCE = 16
_LONGEST_S = 40.0
_LONGEST_SEARCH_S = 300.0

Watch = Callable[[int, int], None]  # how many of how many are done
_Task = tuple[int, Check]


def probe(place: Place, checks: Sequence[Check], *, watch: Watch = lambda *_: None) -> list[Finding]:
    """What every check found with every version, in the order of the checks.

    A version that the broker does not speak is one finding of `connect.accepted`, and nothing else is tried with it.
    """
    stop = Event()
    found = [run_check(place, FIRST, level, stop=stop) for level in LEVELS.values()]
    spoken = {LEVELS[finding.protocol] for finding in found if finding.result in (Result.KEPT, Result.BROKEN)}
    others = [check for check in checks if check is not FIRST]
    tasks = [(level, check) for check in others for level in check.sections if level in spoken]
    total = len(found) + len(tasks)
    for finding in chain(_together(place, tasks, stop), _one_by_one(place, tasks, stop)):
        found.append(finding)
        watch(len(found), total)
    order = {check.id: number for number, check in enumerate((FIRST, *others))}
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


def _one_by_one(place: Place, tasks: list[_Task], stop: Event) -> Iterator[Finding]:
    for level, check in tasks:
        if check.is_alone:
            yield run_check(place, check, level, stop=stop)
