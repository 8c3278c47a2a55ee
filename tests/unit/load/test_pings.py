"""When clients ping, by an injected clock, and that a worker with nothing else to do wakes for it."""

import multiprocessing
import select
import socket
from collections import Counter
from itertools import pairwise

import pytest

from brokerlab.load import worker
from brokerlab.load.alarm import Alarm
from brokerlab.load.pings import Pings
from brokerlab.load.resting import Rest
from brokerlab.load.role import Connections
from brokerlab.load.sessionlog import SessionLog
from brokerlab.load.spec import Client, Stop

pytestmark = pytest.mark.unit
THIRD_NS = 1_000_000_000 // 3  # of a keep-alive of 1 s
START_NS = 70_000_000_123


def turns(pings, fds, *, until_ns, now=START_NS):
    """When each pings, where the loop looks no sooner than it has to."""
    times = {fd: [] for fd in fds}
    while now < until_ns:
        for fd in pings.due(now, fds):
            times[fd].append(now)
        now = pings.look_ns
    return times


def pings_of(fds, *, keep_alive_s=1):
    pings = Pings(keep_alive_s)
    for fd in fds:
        pings.add(fd, keep_alive_s=0)
    return pings


def pings_of_old(fds, *, keep_alive_s=1):
    """Of clients that have all been passed over once, by START_NS."""
    pings = pings_of(fds, keep_alive_s=keep_alive_s)
    pings.due(START_NS - pings.every_ns - 1_000_000, fds)
    assert pings.due(START_NS, fds) == []
    return pings


@pytest.mark.parametrize("count", [1, 5, 3000])
def test_each_client_pings_every_third_of_the_keep_alive(count):
    fds = range(9, 9 + count)

    times = turns(pings_of(fds), fds, until_ns=START_NS + 10 * THIRD_NS)

    for own in times.values():
        gaps = [later - sooner for sooner, later in pairwise(own)]
        assert len(gaps) in (7, 8)
        assert max(gaps) <= THIRD_NS * 9 // 8 + 1


@pytest.mark.parametrize("after_ns", range(0, THIRD_NS, THIRD_NS // 5))
def test_the_first_ping_comes_in_the_second_turn_well_within_the_keep_alive(after_ns):
    """Whenever in a third a client connects: not at once, for it has just been heard of."""
    pings, since = pings_of_old([9]), START_NS + after_ns
    pings.due(since, [9])
    pings.add(10, keep_alive_s=0)

    times = turns(pings, [9, 10], until_ns=since + 3 * THIRD_NS, now=since)

    assert THIRD_NS * 7 // 8 <= times[10][0] - since <= 2 * THIRD_NS + THIRD_NS // 8


def test_a_file_descriptor_that_is_used_again_is_of_a_new_client():
    fds, pings = [9], pings_of_old([9])
    pings.add(9, keep_alive_s=0)

    assert pings.due(START_NS + THIRD_NS + 1_000_000, fds) == []
    assert pings.due(START_NS + 2 * THIRD_NS + 1_000_000, fds) == fds


def test_turns_are_spread_evenly_where_the_loop_looks_all_the_time():
    fds = range(9, 9 + 10_000)
    pings = pings_of_old(fds, keep_alive_s=60)

    counts = [len(pings.due(START_NS + n * 200_000_000, fds)) for n in range(1, 101)]  # a third is 20 s

    assert sum(counts) in range(10_000 - 10, 10_000 + 11)
    assert max(counts) <= 110  # of 1024 slots with ten each there are ten or eleven in a fifth of a second


def test_a_loop_that_slept_for_long_pings_everybody_once():
    fds = range(9, 30)
    pings = pings_of_old(fds)

    assert Counter(pings.due(START_NS + 50 * THIRD_NS, fds)) == Counter(fds)


def test_the_shortest_keep_alive_that_a_broker_asks_for_is_that_of_all():
    fds = [9, 10]
    pings = Pings(60)
    pings.add(9, keep_alive_s=60)
    pings.due(START_NS, fds)
    pings.add(10, keep_alive_s=1)

    assert min(map(len, turns(pings, fds, until_ns=START_NS + 4 * THIRD_NS).values())) >= 3


def test_a_long_keep_alive_wakes_nobody_who_sleeps_half_a_second(connections_of):
    connections, _ = connections_of(keep_alive_s=60)
    now, wakes = START_NS, 0
    while now < START_NS + 20_000_000_000:
        connections.due_for_ping(now)
        now += max(1, round(connections.longest_sleep_s(now, 0.5) * 1e9))
        wakes += 1

    assert wakes <= 20 / 0.5 + 9


class Quiet:
    """A role with nothing to do but pings."""

    gather_s, rest = 0.0, Rest.NONE

    def __init__(self, connections, lab):
        self._connections, self._lab, self._looks = connections, lab, 0

    def tick(self, now):
        self._connections.due_for_ping(now)
        self._looks += 1
        if self._looks == 10:
            self._lab.send(Stop())


class Epoll:
    """Notes how long the loop was ready to sleep."""

    def __init__(self, epoll):
        self._epoll, self.asked_s = epoll, []

    def poll(self, timeout_s):
        self.asked_s.append(timeout_s)
        return self._epoll.poll(timeout_s)


@pytest.fixture
def connections_of():
    """Of one client, and what its worker sleeps in."""
    ours, theirs = socket.socketpair()
    with select.epoll() as epoll, ours, theirs:

        def made(*, keep_alive_s):
            watched = Epoll(epoll)
            connections = Connections(watched, SessionLog("idle/0"), keep_alive_s=keep_alive_s)
            connections.add(Client(0, "idle-0", ""), ours, keep_alive_s=keep_alive_s)
            return connections, epoll

        yield made


def test_a_worker_with_nothing_to_do_wakes_for_pings(connections_of):
    connections, epoll = connections_of(keep_alive_s=1)
    pipe, lab = multiprocessing.Pipe()
    with Alarm() as alarm, pipe, lab:
        epoll.register(pipe.fileno(), select.EPOLLIN)
        worker._loop(Quiet(connections, lab), connections, pipe, alarm)

    assert len(connections.epoll.asked_s) >= 10
    assert max(connections.epoll.asked_s) <= 1 / 24
