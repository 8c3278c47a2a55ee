"""The pause of a worker's subscribers, by the clock alone."""

import select
import socket

import pytest

from brokerlab.load.pausing import Pausing
from brokerlab.load.role import Connections
from brokerlab.load.sessionlog import SessionLog
from brokerlab.load.spec import Go
from brokerlab.study.pause_values import Pause

S = 1_000_000_000


@pytest.fixture
def pair():
    """(a pausing, a socket that has something to read, the epoll that watches it)"""
    ours, theirs = socket.socketpair()
    with ours, theirs, select.epoll() as epoll:
        epoll.register(ours, select.EPOLLIN)
        theirs.send(b"x")
        yield Pausing(Pause(1.0, 2.0), Connections(epoll, SessionLog("s/0", print))), ours.fileno(), epoll


def test_nothing_is_read_while_it_lasts(pair):
    pausing, fd, epoll = pair
    assert pausing.tick(5 * S, [fd]) is None  # no order yet
    pausing.begin(Go(0, 10 * S, 20 * S))

    seen = []
    for now_s in (10, 11, 12, 13, 14):
        wake_ns = pausing.tick(now_s * S, [fd])
        seen.append((bool(epoll.poll(0)), None if wake_ns is None else wake_ns // S))

    assert seen == [(True, 11), (False, 13), (False, 13), (True, None), (True, None)]


def test_what_arrived_in_the_pause_could_be_read_at_its_end(pair):
    pausing, _, _ = pair
    pausing.begin(Go(0, 10 * S, 20 * S))

    assert [pausing.readable_ns(at * S) // S for at in (10, 11, 12, 13, 14)] == [10, 13, 13, 13, 14]


def test_a_pause_of_no_length_is_none():
    pausing = Pausing(Pause(0.0, 0.0), None)
    pausing.begin(Go(0, 10 * S, 20 * S))

    assert not pausing.is_planned
    assert pausing.tick(10 * S, [99]) is None
    assert pausing.readable_ns(10 * S) == 10 * S
