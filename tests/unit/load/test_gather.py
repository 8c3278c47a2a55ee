"""How long a saturating worker sleeps: an injected clock and counts of a made-up broker."""

from pathlib import Path

import numpy as np
import pytest

from brokerlab.load import wire
from brokerlab.load.gather import LONGEST_S, SHORTEST_S, Gather, publishers_gather
from brokerlab.load.spec import Progress, WorkerSpec
from brokerlab.study.values import Arrivals, Qos, Schedule, Workload

pytestmark = pytest.mark.unit

SECOND_NS = 1_000_000_000


def pause_after_a_second(*, per_s, window, share=0.25, fan_out=1.0):
    counts = [0, 0, 0, window]
    gather = Gather(counts, Progress((0,), (1,), (2,), 3), fan_out=fan_out, share=share)
    gather.pause_s(SECOND_NS)
    counts[1] += per_s
    return gather.pause_s(2 * SECOND_NS)


def test_pause_is_its_share_of_the_time_through_the_window():
    assert pause_after_a_second(per_s=100_000, window=2_000) == pytest.approx(0.005)


@pytest.mark.parametrize(("qos", "pause_s"), [(0, 0.005), (1, 0.005), (2, 0.0025)])
def test_publishers_look_twice_as_often_where_a_message_waits_for_them_twice(qos, pause_s):
    workload = Workload(schedule=Schedule(Arrivals.SATURATE, window=2_000), qos=Qos(qos))
    spec = WorkerSpec("publishers/0", 0, "127.0.0.1", 1883, (), workload, 1, 1, Path("unused"))
    counts = [0, 0, 0, 2_000]
    gather = publishers_gather(spec, counts, Progress((0,), (1,), (2,), 3))
    gather.pause_s(SECOND_NS)
    counts[1] += 100_000

    assert gather.pause_s(2 * SECOND_NS) == pytest.approx(pause_s)


def test_with_fan_out_the_window_is_of_publications():
    assert pause_after_a_second(per_s=400_000, window=2_000, fan_out=4.0) == pytest.approx(0.005)


def test_slow_broker_is_looked_at_all_the_same():
    assert pause_after_a_second(per_s=100, window=2_000) == LONGEST_S


def test_small_window_is_not_gathered_for():
    assert pause_after_a_second(per_s=50_000, window=10) == 0.0


def test_broker_that_waits_for_acknowledgements_is_looked_at_more_often_until_it_does_not():
    counts = [0, 0, 0, 60_000]
    gather = Gather(counts, Progress((0,), (1,), (2,), 3), fan_out=1.0, share=1.0)
    pauses = []
    for now in range(1, 20):
        for _ in range(64):
            gather.note(20)
        counts[1] += 1_000
        pauses.append(gather.pause_s(now * SECOND_NS))

    assert pauses == sorted(pauses, reverse=True)
    assert pauses[-1] == SHORTEST_S
    for count in range(64 * 30):
        gather.note(count % 50)
    counts[1] += 1_000
    assert gather.pause_s(21 * SECOND_NS) > SHORTEST_S


def test_reads_that_bring_all_that_is_handed_over_at_once_are_no_limit_of_the_broker():
    counts = [0, 0, 0, 80]
    gather = Gather(counts, Progress((0,), (1,), (2,), 3), fan_out=1.0, share=1.0)
    for _ in range(64 * 20):
        gather.note(20)
    counts[1] += 1_000

    assert gather.pause_s(20 * SECOND_NS) == LONGEST_S


def rows_of(*flow):
    return np.array([(publisher, seq, 0, 0, 0) for publisher, seq in flow], dtype=np.int64)


def test_overtaken_messages_are_counted_and_taken_off_when_they_come_after_all():
    highest = np.full(2, -1, dtype=np.int64)
    rows = rows_of((0, 0), (0, 3), (1, 1), (0, 2))

    assert wire.count_overtaken(rows, 0, 3, highest) == 3
    assert wire.count_overtaken(rows, 3, 4, highest) == -1
    assert highest.tolist() == [3, 1]


def test_foreign_identities_do_not_count_as_a_gap():
    highest = np.full(1, -1, dtype=np.int64)

    assert wire.count_overtaken(rows_of((-1, -1), (7, 5), (0, 4_000_000_000)), 0, 3, highest) == 0
    assert highest.tolist() == [-1]
