"""Guards over the machine: from readings to figures to reasons, and one look at the real machine."""

import socket

import pytest

from brokerlab.lab.guards import machine_reasons
from brokerlab.lab.surroundings import Lookout, Reading, Surroundings, read_machine, summarize, unread_bytes
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
        "backlog_bytes": 0,
    }
    return Reading(at_ns=at_ns, **(zero | facts))


def around(**facts):
    return Surroundings(**({name: getattr(QUIET, name) for name in Surroundings.__slots__} | facts))


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


def test_steal_and_backlog_count_in_the_measure_phase_and_the_rest_over_the_run():
    readings = [
        reading(0, swap_used_bytes=100, steal_ticks=50, all_ticks=1000, backlog_bytes=9000),
        reading(10, swap_used_bytes=400, steal_ticks=90, all_ticks=2000, backlog_bytes=100),
        reading(
            20,
            swap_used_bytes=300,
            steal_ticks=100,
            idle_ticks=50,
            all_ticks=2200,
            backlog_bytes=300,
            wall_less_mono_ns=-5 * MS,
        ),
        reading(30, swap_used_bytes=200, steal_ticks=900, all_ticks=3000),
    ]

    assert summarize(readings, measure_ns=10, end_ns=20) == Surroundings(
        readings=4,
        swap_growth_bytes=300,
        steal_percent=5.0,
        clock_step_ms=5.0,
        socket_backlog_bytes=200.0,
        system_cpu_percent=75.0,
    )


def test_unread_bytes_are_those_of_the_fullest_client_socket_of_the_broker():
    text = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:075B 0100007F:C001 01 00000000:0000FFFF 00:00000000 00000000     0        0 1 1
   1: 0100007F:C001 0100007F:075B 01 00000000:00000010 00:00000000 00000000     0        0 2 1
   2: 0100007F:C002 0100007F:075B 01 00000000:00000020 00:00000000 00000000     0        0 3 1
   3: 0100007F:C003 0100007F:1F90 01 00000000:00000FFF 00:00000000 00000000     0        0 4 1
"""

    assert unread_bytes(text, 0x075B) == 32
    assert unread_bytes(text, 1) == 0


def test_the_real_machine_shows_what_waits_in_a_socket():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client, server.accept()[0] as accepted:
            accepted.sendall(b"x" * 1000)
            client.recv(1, socket.MSG_PEEK)
            seen = read_machine(port)

    assert seen.backlog_bytes == 1000
    assert seen.all_ticks > 0


def test_the_lookout_reads_at_once():
    with Lookout(1) as lookout:
        pass

    assert len(lookout.readings) >= 1
