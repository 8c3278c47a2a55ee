"""The pace of a saturated subscriber, on real sockets that hold something back or do not."""

import socket
from dataclasses import replace

import pytest
from saturated_worker import ALONE, COUNTS, PROGRESS, SATURATED

from brokerlab.load.gather import LONGEST_S, SHORTEST_S, Gather, gather_of
from brokerlab.load.pace import BUFFER_BYTES, Pace, pace_of
from brokerlab.load.spec import Client
from brokerlab.study.values import Qos, Schedule

pytestmark = pytest.mark.unit


@pytest.fixture
def ends():
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as near:
        far, _ = server.accept()
        with far:
            yield near, far


def test_pause_gets_longer_while_the_buffer_is_not_full(ends):
    near, _ = ends
    pace = Pace(lambda: 1 << 20)
    first_s = pace.kept_s

    assert not pace.is_held_back(near.fileno(), BUFFER_BYTES)
    assert pace.kept_s > first_s
    for _ in range(100):
        pace.is_held_back(near.fileno(), BUFFER_BYTES)
    assert pace.kept_s == LONGEST_S


def test_pause_gets_shorter_while_the_broker_waits_until_there_is_none(ends):
    """A broker that always has more to send is read as it sends: the pace is never the limit."""
    near, far = ends
    far.sendall(bytes(16_384))
    assert near.recv(16_384, socket.MSG_PEEK | socket.MSG_WAITALL) == bytes(16_384)
    pace, pauses = Pace(lambda: 1 << 20), []

    while pace.is_on:
        pauses.append(pace.kept_s)
        assert pace.is_held_back(near.fileno(), 16_384)

    assert pauses == sorted(pauses, reverse=True)
    assert SHORTEST_S <= pauses[-1] < 1.05 * SHORTEST_S
    assert len(pauses) < 250
    assert not pace.is_held_back(near.fileno(), BUFFER_BYTES)


def test_all_that_was_held_back_has_come_where_it_leaves_room(ends):
    near, far = ends
    far.sendall(bytes(16_384))
    near.recv(16_384, socket.MSG_PEEK | socket.MSG_WAITALL)
    pace = Pace(lambda: 1 << 20)
    first_s = pace.kept_s

    assert not pace.is_held_back(near.fileno(), BUFFER_BYTES)
    assert pace.kept_s < first_s


def test_window_of_few_buffers_is_read_empty_at_every_look(ends):
    near, _ = ends
    pace = Pace(lambda: BUFFER_BYTES)

    assert not pace.is_on
    assert pace.kept_s is None
    assert not pace.is_held_back(near.fileno(), BUFFER_BYTES)


@pytest.mark.parametrize(
    "spec",
    [
        replace(ALONE, clients=(Client(0, "s0", "t"), Client(1, "s1", "t"))),
        replace(ALONE, workload=replace(SATURATED, qos=Qos.AT_LEAST_ONCE)),
        replace(ALONE, workload=replace(SATURATED, payload_bytes=1024)),
        replace(ALONE, workload=replace(SATURATED, schedule=Schedule(rate_per_s=10))),
    ],
    ids=["two subscribers", "acknowledgements", "long messages", "a schedule"],
)
def test_others_keep_no_pace(spec):
    pace = pace_of(spec, gather_of(spec, COUNTS, PROGRESS))

    assert not pace.is_possible
    assert not pace.is_on


def test_one_subscriber_of_small_messages_keeps_one_in_a_wide_window():
    counts = list(COUNTS)
    pace = pace_of(ALONE, Gather(counts, PROGRESS, fan_out=1.0, share=0.25))

    assert pace.is_on
    counts[3] = 1024
    assert not pace.is_on
