"""One worker: a process with one event loop, one role and some of the run's clients.

It is started by `crew.py`, obeys the words of `spec.py` and writes its own raw files.
"""

import contextlib
import ctypes
import gc
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import MutableSequence
from dataclasses import replace
from multiprocessing.connection import Connection

import pyarrow as pa
import pyarrow.compute  # Arrow imports it at the first `take`, which would hold the schedule up by 0.1 s

from brokerlab.errors import LabError, UserError
from brokerlab.inside import enter
from brokerlab.load.alarm import Alarm, now_ns
from brokerlab.load.openfiles import raise_open_files
from brokerlab.load.parting import Parting
from brokerlab.load.resting import CLOSE_NS, Rest, rested_ns
from brokerlab.load.role import Connections, Role, Stormy, Together, Watching
from brokerlab.load.roles import role_of
from brokerlab.load.sessionlog import SessionLog
from brokerlab.load.spec import (
    Connect,
    Drain,
    Failed,
    Go,
    Halt,
    Leave,
    Progress,
    Ready,
    Retime,
    Stop,
    Stopped,
    Storm,
    Subscribe,
    TakeStock,
    WorkerSpec,
)
from brokerlab.load.stalls import Stalls
from brokerlab.record.directory import RunDirectory
from brokerlab.record.parts import PartWriter
from brokerlab.record.schemas import SESSIONS

_PR_SET_PDEATHSIG = 1
_PR_SET_TIMERSLACK = 29
_LONGEST_SLEEP_S = 0.5


def main(spec: WorkerSpec, pipe: Connection, counts: MutableSequence[int], progress: Progress) -> None:
    """The worker's whole life; whatever goes wrong is said over the pipe."""
    _belong_to_parent()
    raise_open_files()
    ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)  # who sleeps is woken 50 µs late otherwise
    pa.array(())  # Arrow looks for pandas at its first array: not in the middle of the schedule
    gc.freeze()
    gc.disable()  # a collection would be a pause in the schedule; the loop makes no cycles
    sys.setswitchinterval(0.0005)  # the writing thread gives the lock back within half a millisecond
    with contextlib.suppress(BrokenPipeError):  # the lab gave the run up and closed its end: nobody listens
        pipe.send(_last_word(spec, pipe, counts, progress))


def _last_word(
    spec: WorkerSpec, pipe: Connection, counts: MutableSequence[int], progress: Progress
) -> Stopped | Failed:
    try:
        enter(spec.place.namespace)
        if spec.place.group is not None:
            os.setpgid(0, spec.place.group)
        with select.epoll() as epoll:
            return _serve(spec, pipe, epoll, counts, progress)
    except UserError as problem:
        return Failed(problem.message, hint=problem.hint)
    except (LabError, OSError, EOFError) as problem:
        return Failed(str(problem))
    except Exception:  # noqa: BLE001 - the lab shows it as the bug that it is
        return Failed(traceback.format_exc(), is_ours=True)


def _serve(
    spec: WorkerSpec, pipe: Connection, epoll: select.epoll, counts: MutableSequence[int], progress: Progress
) -> Stopped:  # fmt: skip
    sessions = PartWriter(RunDirectory(spec.run).raw("sessions"), spec.node.replace("/", "-"), SESSIONS)
    log = SessionLog(spec.node, sessions.write)
    connections = Connections(epoll, log, keep_alive_s=spec.workload.clients.keep_alive_s, orders_fd=pipe.fileno())
    role: Role = role_of(spec)(spec, connections, log, pipe.send, counts, progress)
    with Alarm() as alarm:
        epoll.register(alarm.fd, select.EPOLLIN)
        epoll.register(pipe.fileno(), select.EPOLLIN)
        pipe.send(Ready())
        try:
            _loop(role, connections, pipe, alarm)
            return replace(role.close(), held=connections.stalls.held(has_no_lag=spec.is_closed and spec.publishes))
        finally:  # also of a run that failed: how far its clients came is worth knowing
            log.flush()
            sessions.close()


def _loop(role: Role, connections: Connections, pipe: Connection, alarm: Alarm) -> None:
    stalls, epoll = connections.stalls, connections.epoll
    woke_ns, watching = now_ns(), role if isinstance(role, Watching) else None
    together = role if isinstance(role, Together) else None
    while True:
        wake_ns = role.tick(now_ns())
        rest = Rest.NONE if wake_ns is None or wake_ns - now_ns() > CLOSE_NS else role.rest
        if rest is Rest.UNTIL_DUE:
            events = epoll.poll(0)
        else:
            stalls.waits(now_ns())
            if rest is Rest.SHORT:
                _sleep_until(rested_ns(woke_ns))
            asked_ns, events = _wait(role, watching, wake_ns, connections, alarm)
            woke_ns = now_ns()
            stalls.woke(asked_ns or woke_ns, woke_ns)
        if together is not None and events:
            events = together.ready_together(events)
        for fd, event in events:
            if fd == alarm.fd:
                alarm.clear()
            elif fd == pipe.fileno():
                if not _obey(role, stalls, pipe):
                    return
            else:
                role.ready(fd, event)
        if rest is Rest.UNTIL_DUE and wake_ns is not None:
            _sleep_until(max(wake_ns, rested_ns(woke_ns)))
            woke_ns = now_ns()
            stalls.woke(woke_ns, woke_ns)


def _sleep_until(at_ns: int) -> None:
    time.sleep(max(0, at_ns - now_ns()) / 1e9)


def _wait(
    role: Role, watching: Watching | None, wake_ns: int | None, connections: Connections, alarm: Alarm
) -> tuple[int, list[tuple[int, int]]]:
    """Sleeps until something happens or is due, or has the role watch; one that gathers looks at fixed intervals.

    Waking up costs more CPU than anything that is done then: under saturation it is done seldom (gather.py).
    The events come behind the time until which this was to sleep, 0 where the role slept or nothing was due.
    """
    gather_s = role.gather_s
    if watching is not None and (events := watching.watch(gather_s)) is not None:
        return 0, events
    began_ns = now_ns()
    if gather_s:
        time.sleep(gather_s)
        return began_ns + round(gather_s * 1e9), connections.epoll.poll(0)
    if wake_ns is not None:
        alarm.set(wake_ns)
    asked_ns = max(began_ns, wake_ns) if wake_ns is not None else 0
    return asked_ns, connections.epoll.poll(connections.longest_sleep_s(began_ns, _LONGEST_SLEEP_S))


def _obey(role: Role, stalls: Stalls, pipe: Connection) -> bool:
    """Does what the lab says next; whether the worker goes on."""
    match pipe.recv():
        case Connect() as order:
            role.connect(order)
        case Subscribe() as order:
            role.subscribe(order)
        case Go() as order:
            stalls.begin(order)
            role.go(order)
        case Retime(order):
            stalls.retime(order)
            role.retime(order)
        case Drain() as order:
            role.drain(order)
        case Halt():
            role.halt()
        case Storm() if isinstance(role, Stormy):
            role.storm()
        case TakeStock():
            pipe.send(replace(role.stock(), held=stalls.held(has_no_lag=False)))  # trials keep a schedule
        case Leave() as order if isinstance(role, Parting):
            role.leave(order)
        case Stop():
            return False
    return True


def _belong_to_parent() -> None:
    """Dies with its parent, whatever kills that: nothing of ours outlives the lab (prctl(2)).

    Ctrl-C reaches the whole terminal group; the lab alone decides what it means for the workers.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        raise SystemExit(1)
