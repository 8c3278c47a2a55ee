"""Who sleeps without an ear for its sockets, and what the loop of a worker makes of it (real sockets and timers)."""

import multiprocessing
import select
import socket
import threading
from pathlib import Path

import pytest

from brokerlab.load import worker
from brokerlab.load.agenda import Agenda
from brokerlab.load.alarm import Alarm, now_ns
from brokerlab.load.resting import Rest, rest_of, rested_ns
from brokerlab.load.role import Connections
from brokerlab.load.sessionlog import SessionLog
from brokerlab.load.spec import Client, Stop, WorkerSpec
from brokerlab.study.values import Arrivals, Qos, Schedule, Workload

pytestmark = pytest.mark.unit

MILLISECOND_NS = 1_000_000
TURNS = 200


def spec_of(arrivals, qos):
    workload = Workload(1, 1, schedule=Schedule(arrivals, rate_per_s=10), qos=Qos(qos))
    return WorkerSpec("publishers/0", 0, "127.0.0.1", 1, (Client(0, "p0", "t"),), workload, 1, 1, Path())


@pytest.mark.parametrize(("qos", "rest"), [(0, Rest.UNTIL_DUE), (1, Rest.UNTIL_DUE), (2, Rest.SHORT)])
@pytest.mark.parametrize("arrivals", [Arrivals.CONSTANT, Arrivals.POISSON, Arrivals.SEARCH, Arrivals.BURST])
def test_who_keeps_a_schedule_rests_and_answers_releases_soon(arrivals, qos, rest):
    assert rest_of(spec_of(arrivals, qos), hears=False) is rest


@pytest.mark.parametrize("arrivals", [Arrivals.SATURATE, Arrivals.WINDOW])
def test_who_waits_for_answers_does_not_rest(arrivals):
    assert rest_of(spec_of(arrivals, 1), hears=False) is Rest.NONE


def test_who_hears_does_not_rest():
    assert rest_of(spec_of(Arrivals.CONSTANT, 0), hears=True) is Rest.NONE


def test_it_sleeps_as_long_as_it_was_awake_up_to_a_millisecond():
    before = now_ns()
    assert rested_ns(before - 100_000) - now_ns() <= 100_000 + 2 * (now_ns() - before)
    assert 0 < rested_ns(before - 50 * MILLISECOND_NS) - before <= MILLISECOND_NS + (now_ns() - before)


def test_the_clock_is_watched_only_for_what_was_woken_for_earlier():
    agenda, now = Agenda(), now_ns()
    agenda.enter(7, now + 2 * MILLISECOND_NS)
    assert agenda.wake_ns(now, is_crowd=False) < now + 2 * MILLISECOND_NS
    assert agenda.watched(now + 2 * MILLISECOND_NS - 100_000) >= now + 2 * MILLISECOND_NS
    agenda.leave(7)
    soon = now_ns() + 100_000
    agenda.enter(7, soon)
    assert agenda.wake_ns(soon - 100_000, is_crowd=False) == soon
    assert agenda.watched(soon - 100_000) == soon - 100_000


class Chattered:
    """A role with something due every half millisecond, whose socket never falls silent."""

    gather_s = 0.0

    def __init__(self, sock, rest, lab):
        self.rest, self._sock, self._lab = rest, sock, lab
        self.ticks = self.reads = 0
        self._due_ns = now_ns()

    def tick(self, now):
        self.ticks += 1
        if now >= self._due_ns:
            self._due_ns = now + MILLISECOND_NS // 2
        if self.ticks == TURNS:
            self._lab.send(Stop())
        return self._due_ns

    def ready(self, _fd, _event):
        self.reads += 1
        self._sock.recv(65536)


@pytest.fixture
def chatter():
    """One end of a connection on which a byte comes every few microseconds."""
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    is_over = threading.Event()

    def talk():
        while not is_over.is_set():
            theirs.send(b".")
            is_over.wait(0.000_05)

    thread = threading.Thread(target=talk)
    thread.start()
    yield ours
    is_over.set()
    thread.join()
    ours.close()
    theirs.close()


def span_of_turns(sock, rest):
    """How many times half a millisecond went by in so many turns of the loop."""
    pipe, lab = multiprocessing.Pipe()
    with select.epoll() as epoll, Alarm() as alarm, pipe, lab:
        role = Chattered(sock, rest, lab)
        for fd in (sock.fileno(), pipe.fileno(), alarm.fd):
            epoll.register(fd, select.EPOLLIN)
        began_ns = now_ns()
        worker._loop(role, Connections(epoll, SessionLog("publishers/0")), pipe, alarm)
        return (now_ns() - began_ns) / (MILLISECOND_NS / 2), role


def test_a_worker_that_rests_wakes_for_what_is_due_alone_and_reads_all_the_same(chatter):
    spans, role = span_of_turns(chatter, Rest.UNTIL_DUE)
    assert spans > 0.9 * TURNS
    assert role.reads > TURNS // 2
