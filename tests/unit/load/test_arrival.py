"""Arrival times of a real TCP connection: neither before the sending nor after the reading."""

import socket
import threading
import time

import pytest

from brokerlab.load.arrival import ask_for_stamps, read_stamped
from brokerlab.load.wallclock import wall_less_monotonic_ns

pytestmark = pytest.mark.unit

SLACK_NS = 10_000  # of bringing one clock onto the other


@pytest.fixture
def connection():
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = socket.create_connection(server.getsockname())
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        accepted, _ = server.accept()
        ask_for_stamps(accepted)
        with client, accepted:
            yield client, accepted


def exchange(connection, *, read_after_s=0.0):
    client, accepted = connection
    before = time.monotonic_ns()
    client.send(b"x")
    after = time.monotonic_ns()
    time.sleep(read_after_s)
    _, arrived = read_stamped(accepted, memoryview(bytearray(16)))
    return before, arrived, after, time.monotonic_ns()


def test_no_message_arrives_before_it_was_sent_also_on_a_busy_machine(connection):
    stop = threading.Event()
    busy = [threading.Thread(target=lambda: [None for _ in iter(stop.is_set, True)], daemon=True) for _ in range(3)]
    for thread in busy:
        thread.start()
    try:
        seen = [exchange(connection) for _ in range(300)]
    finally:
        stop.set()

    assert all(before - SLACK_NS <= arrived <= read for before, arrived, _, read in seen)


def test_reading_late_does_not_make_the_arrival_late(connection):
    exchange(connection)  # the kernel begins to stamp some time after it was asked
    time.sleep(0.1)

    _, arrived, after_sending, read = exchange(connection, read_after_s=0.2)

    assert read - after_sending >= 200_000_000
    assert arrived - after_sending < 100_000_000


def test_the_difference_of_the_clocks_is_steady():
    differences = [wall_less_monotonic_ns() for _ in range(1000)]

    assert max(differences) - min(differences) < 1_000_000
