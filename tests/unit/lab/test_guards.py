"""Guards over the machine: from readings to figures to reasons, and a look at real sockets."""

import socket
import time

import pytest

from brokerlab.lab.guards import machine_reasons
from brokerlab.lab.surroundings import Lookout, Reading, Surroundings, summarize
from brokerlab.load.backlog import BacklogWatch, unread_bytes
from brokerlab.study.values import Guards

pytestmark = pytest.mark.unit
MS = 1_000_000
QUIET = Surroundings(
    readings=4, swap_growth_bytes=0, steal_percent=0.0, clock_step_ms=0.0, socket_backlog_bytes=0.0
)  # fmt: skip


def reading(at_ns, **facts):
    zero = {
        "swap_used_bytes": 0,
        "steal_ticks": 0,
        "idle_ticks": 0,
        "all_ticks": 0,
        "wall_less_mono_ns": 0,
    }
    return Reading(at_ns=at_ns, **(zero | facts))


def around(**facts):
    return Surroundings(**({name: getattr(QUIET, name) for name in Surroundings.__slots__} | facts))


def sleep_until(at_ns):
    time.sleep(max(0, at_ns - time.monotonic_ns()) / 1e9)


def wait_until(is_done):
    deadline = time.monotonic() + 10
    while not is_done():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_quiet_machine_breaks_no_guard():
    assert machine_reasons(QUIET, Guards(), payload_bytes=64) == []


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"swap_growth_bytes": 2_000_000}, "swap in use grew by 2000000 bytes, more than 1048576"),
        (
            {"steal_percent": 7.25},
            "CPU steal: 7.2 % of the measure phase is above 5 %, other machines on the host took the cores",
        ),
        (
            {"clock_step_ms": 1500.0},
            "the wall clock stepped by 1500.00 ms, more than 1 ms: arrival stamps cannot be trusted",
        ),
        (
            {"socket_backlog_bytes": 200_000.0},
            "socket backlog: 200000 bytes waited unread on average, more than 131200: the subscriber did not keep up",
        ),
    ],
)
def test_each_broken_guard_is_a_reason_with_figures(facts, reason):
    assert machine_reasons(around(**facts), Guards(), payload_bytes=64) == [reason]


def test_large_messages_may_wait_in_a_socket():
    assert machine_reasons(around(socket_backlog_bytes=1_500_000.0), Guards(), payload_bytes=1_000_000) == []


def test_what_could_not_be_measured_breaks_no_guard():
    nothing = summarize([], measure_ns=0, end_ns=10)

    assert nothing == Surroundings(0, None, None, None, None)
    assert machine_reasons(nothing, Guards(), payload_bytes=64) == []


def test_steal_counts_in_the_measure_phase_and_the_rest_over_the_run():
    readings = [
        reading(0, swap_used_bytes=100, steal_ticks=50, all_ticks=1000),
        reading(10, swap_used_bytes=400, steal_ticks=90, all_ticks=2000),
        reading(
            20,
            swap_used_bytes=300,
            steal_ticks=100,
            idle_ticks=50,
            all_ticks=2200,
            wall_less_mono_ns=-5 * MS,
        ),
        reading(30, swap_used_bytes=200, steal_ticks=900, all_ticks=3000),
    ]

    assert summarize(readings, measure_ns=10, end_ns=20, backlogs_bytes=[None, 200.0, 100.0]) == Surroundings(
        readings=4,
        swap_growth_bytes=300,
        steal_percent=5.0,
        clock_step_ms=5.0,
        socket_backlog_bytes=200.0,
        system_cpu_percent=75.0,
    )


def test_what_was_before_a_trial_is_not_its_own():
    """A step and swapping of an earlier one would limit all that follow, and end the search."""
    readings = [
        reading(0),
        reading(10, swap_used_bytes=400, wall_less_mono_ns=50 * MS),
        reading(20, swap_used_bytes=400, wall_less_mono_ns=50 * MS),
        reading(30, swap_used_bytes=450, wall_less_mono_ns=53 * MS),
    ]

    def seen(since_ns):
        found = summarize(readings, measure_ns=since_ns, end_ns=30, since_ns=since_ns)
        return found.swap_growth_bytes, found.clock_step_ms

    assert seen(5) == (450, 53.0)  # from the last reading before it
    assert seen(12) == (50, 3.0)
    assert seen(-1) == (450, 53.0)


@pytest.fixture
def sockets():
    """Ours, of which the second holds 1000 bytes that nobody reads."""
    ours, theirs = zip(*(socket.socketpair() for _ in range(3)), strict=True)
    theirs[1].sendall(b"x" * 1000)
    yield ours
    for each in (*ours, *theirs):
        each.close()


def test_the_fullest_socket_counts_as_long_as_it_is_looked_at(sockets):
    start_ns = time.monotonic_ns()
    watch = BacklogWatch(
        {each.fileno(): None for each in sockets}, start_ns=start_ns, end_ns=start_ns + 3600_000_000_000
    )
    wait_until(lambda: watch.mean_bytes() is not None)
    watch.close()
    number = sockets[1].fileno()
    assert unread_bytes(number) == 1000
    sockets[1].close()

    assert watch.mean_bytes() == 1000
    assert watch.mean_bytes(but=(1, time.monotonic_ns())) is None
    watch.retime(start_ns=0, end_ns=1)
    assert watch.mean_bytes() is None
    assert unread_bytes(number) == 0  # it is closed


@pytest.mark.parametrize("seconds", [0.3, 0.7])
def test_sockets_are_looked_at_in_short_phases_too(sockets, seconds):
    """What is there from the middle of the phase on is seen, and less of it than what was there from the start."""
    late, other = socket.socketpair()
    start_ns = time.monotonic_ns() + round(0.05e9)
    end_ns = start_ns + round(seconds * 1e9)
    watch = BacklogWatch({late.fileno(): None}, start_ns=start_ns, end_ns=end_ns)
    whole = BacklogWatch({each.fileno(): None for each in sockets}, start_ns=0, end_ns=1)
    whole.retime(start_ns=start_ns, end_ns=end_ns)
    sleep_until(start_ns + (end_ns - start_ns) // 2)
    other.sendall(b"x" * 1000)
    sleep_until(end_ns + 200 * MS)
    for each in (watch, whole):
        each.close()
    late.close()
    other.close()

    assert whole.mean_bytes() == 1000
    assert 0 < watch.mean_bytes() < 1000


def test_the_lookout_reads_at_once():
    with Lookout() as lookout:
        pass

    assert len(lookout.readings) >= 1


def test_a_phase_that_is_shorter_than_the_period_of_the_lookout_is_judged_by_its_boundaries():
    with Lookout() as lookout:
        start_ns = time.monotonic_ns()
        lookout.mark(start_ns)
        sleep_until(start_ns + 100 * MS)
        end_ns = time.monotonic_ns()
        lookout.mark(end_ns)
        sleep_until(end_ns + 50 * MS)
    found = summarize(lookout.readings, measure_ns=start_ns, end_ns=end_ns)

    assert {start_ns, end_ns} <= {each.at_ns for each in lookout.readings}
    assert 0 <= found.steal_percent <= 100
    assert 0 <= found.system_cpu_percent <= 100


def test_a_boundary_that_is_read_late_is_no_step_back():
    """The reading of the thread at 12 was made before that for 10: counters stand in the order of being read."""
    readings = [
        reading(5, all_ticks=100),
        reading(12, all_ticks=200, steal_ticks=10),
        reading(10, all_ticks=210, steal_ticks=11),
        reading(22, all_ticks=290, steal_ticks=12),
        reading(20, all_ticks=300, steal_ticks=20),
    ]

    assert summarize(readings, measure_ns=10, end_ns=20).steal_percent == 10.0
