"""How much room subscribers have, and that no broker waits for it: on real sockets."""

import contextlib
import socket
from dataclasses import replace

import pytest
from saturated_worker import ALONE, COUNTS, PROGRESS

from brokerlab.load.gather import gather_of
from brokerlab.load.pace import BUFFER_BYTES, pace_of
from brokerlab.load.room import Room, room_of
from brokerlab.load.spec import Client
from brokerlab.study.values import Qos, Schedule

pytestmark = pytest.mark.unit

MS = 1_000_000
LITTLE = 8 << 10
SEVERAL = replace(ALONE, clients=(Client(0, "s0", "t"), Client(1, "s1", "t")))


def room(spec, *, is_pausing=False):
    return room_of(spec, pace_of(spec, gather_of(spec, COUNTS, PROGRESS)), is_pausing=is_pausing)


def of(spec, **changes):
    return replace(spec, workload=replace(spec.workload, **changes))


@contextlib.contextmanager
def connected(own):
    """A subscriber's end that has this room, and the broker's."""
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket() as near:
        own.give(near)
        near.connect(server.getsockname())
        far, _ = server.accept()
        with far:
            far.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            near.setblocking(False)
            far.setblocking(False)
            yield near, far


def test_a_schedule_has_ample_room_wherever_the_broker_is():
    kept = of(ALONE, schedule=Schedule(rate_per_s=1))

    assert room(kept).buffer_bytes == room(replace(kept, host="10.1.0.1")).buffer_bytes == 4 << 20


def test_a_saturated_subscriber_has_as_much_as_its_pace_fills_or_more_for_long_messages():
    assert room(ALONE).buffer_bytes == BUFFER_BYTES
    assert room(of(ALONE, payload_bytes=1024)).buffer_bytes == 64 << 10
    assert room(of(ALONE, qos=Qos.AT_LEAST_ONCE)).buffer_bytes == 64 << 10


def test_several_have_little_of_short_messages_at_qos_0_and_otherwise_what_the_kernel_gives():
    assert room(SEVERAL).buffer_bytes == LITTLE
    assert room(of(SEVERAL, payload_bytes=1024)) == Room()
    assert room(of(SEVERAL, qos=Qos.AT_LEAST_ONCE)) == Room()


def test_a_planned_pause_is_about_the_kernels_own_room():
    assert room(ALONE, is_pausing=True) == room(SEVERAL, is_pausing=True) == Room()


@pytest.mark.parametrize("spec", [ALONE, SEVERAL])
def test_a_broker_behind_a_link_does_not_wait_for_a_buffer_at_a_time(spec):
    """64 KiB over 40 ms are 1,500 messages of 1 KiB a second, whatever the broker can do."""
    assert room(replace(spec, host="10.1.0.1")) == Room()
    assert room(replace(spec, others=(("10.1.0.2", 1883),))) == Room()
    assert room(replace(spec, host="localhost")) == room(spec) != Room()


def test_a_broker_that_writes_much_at_once_does_not_stand_still_before_little_room():
    """Its kernel would, if the room were taken away after it was offered more: for 0.2 s, again and again."""
    total, got, left, nothing = 1 << 20, 0, 1 << 20, 0
    with connected(room(SEVERAL)) as (near, far):
        while got < total:
            with contextlib.suppress(BlockingIOError):  # the broker has no room either
                left -= far.send(bytes(min(60_000, left))) if left else 0
            came = sum(iter(lambda: read(near), 0))
            got, nothing = got + came, nothing + (not came)

    assert nothing < 1000


def read(near, flags=0):
    try:
        return len(near.recv(1 << 20, flags))
    except BlockingIOError:
        return 0


def test_room_that_is_full_within_2_ms_grows_and_the_broker_finds_more():
    with connected(room(SEVERAL)) as (near, far):
        first = max(accepted(far, near) for _ in range(10))
        own = room(SEVERAL).after(3 * LITTLE, 5 * MS, near)
        own = own.after(6 * LITTLE, 5 * MS, near)
        assert own.buffer_bytes == 4 * LITTLE
        assert any(accepted(far, near) > 2 * first for _ in range(1000))  # the kernel offers it little by little


def accepted(far, near):
    """How many bytes wait for the subscriber when the broker sent as much as it could; they are read."""
    with contextlib.suppress(BlockingIOError):
        while True:
            far.send(bytes(64 << 10))
    waiting = read(near, socket.MSG_PEEK)
    while read(near):
        pass
    return waiting


@pytest.mark.parametrize(("got", "elapsed_ns"), [(LITTLE - 1, 1), (3 * LITTLE, 7 * MS), (0, 15 * MS)])
def test_room_that_lasts_for_2_ms_or_was_not_full_stays(got, elapsed_ns):
    with connected(room(SEVERAL)) as (near, _):
        assert room(SEVERAL).after(got, elapsed_ns, near) == room(SEVERAL)


def test_room_of_one_subscriber_does_not_grow():
    with connected(room(ALONE)) as (near, _):
        assert room(ALONE).after(1 << 30, 1, near) == room(ALONE)
