"""Publications that came and those that left, paired on paper (M-26: N is the number of matched pairs)."""

import numpy as np
import pytest

from brokerlab.pipeline.capture.messages import IS_AGAIN, IS_COUNTED, IS_IN, IS_KNOWN, by_bucket, legs_of, pairs
from brokerlab.pipeline.capture.taps import Phases, phases_in

pytestmark = pytest.mark.pipeline

ALL = IS_KNOWN | IS_COUNTED


def rows(*messages, flags=ALL):
    """(key, at, who) each; a fourth value is more flags."""
    made = [(key, at, at, who, 20 << 8 | flags | (more[0] if more else 0)) for key, at, who, *more in messages]
    return np.array(made, dtype=np.int64).reshape(len(made), 5)


def came(*messages):
    return rows(*((key, at, 1, *more) for key, at, *more in messages), flags=ALL | IS_IN)


def test_each_receiver_of_a_message_is_a_pair():
    found = pairs(came((7, 100), (8, 200)), rows((7, 130, 1), (7, 150, 2), (8, 290, 2)))

    assert sorted(found.latency_ns.tolist()) == [30, 50, 90]
    assert (found.unmatched, found.ambiguous) == (0, 0)


def test_messages_that_look_alike_are_paired_in_their_order():
    found = pairs(came((7, 100), (7, 200)), rows((7, 210, 1), (7, 105, 1), (7, 101, 2), (7, 209, 2)))

    assert sorted(found.latency_ns.tolist()) == [1, 5, 9, 10]


def test_of_messages_that_look_alike_nobody_knows_which_is_missing():
    found = pairs(came((7, 100), (7, 200)), rows((7, 210, 1)))

    assert (found.latency_ns.size, found.ambiguous, found.unmatched) == (0, 1, 0)


def test_what_was_not_seen_to_come_is_unmatched():
    found = pairs(came((7, 100)), rows((7, 110, 1), (9, 120, 1)))

    assert (found.latency_ns.tolist(), found.unmatched) == ([10], 1)
    assert pairs(came(), rows((9, 120, 1))).unmatched == 1
    assert pairs(came((7, 100)), rows()).latency_ns.size == 0


def test_what_is_sent_again_counts_once():
    """The receiver's first copy is a pair; the second, with DUP set, is none."""
    messages = np.concatenate([came((7, 100), (7, 150, IS_AGAIN)), rows((7, 120, 2), (7, 190, 2, IS_AGAIN))])
    legs = {leg["leg"]: leg for leg in legs_of({"tap": messages})}

    assert [legs[name]["messages"] for name in ("to broker", "from broker", "through broker")] == [1, 1, 1]
    assert legs["through broker"]["sum_ns"] == 20


def test_a_message_may_come_at_one_tap_and_leave_at_another():
    found = list(legs_of({"a": came((7, 100)), "b": rows((7, 140, 2))}))
    through = [leg for leg in found if leg["leg"] == "through broker"]

    assert [(leg["tap"], leg["n"], leg["sum_ns"]) for leg in through] == [("a → b", 1, 40)]


def test_buckets_hold_every_message_once():
    messages = rows(*((key * 0x9E3779B97F4A7C1 % 2**62, key, 1) for key in range(1000)))
    parts = dict(by_bucket(messages, 7))

    assert len(parts) == 7
    assert sorted(np.concatenate(list(parts.values())).tolist()) == sorted(messages.tolist())


def test_phases_are_carried_to_the_wall_clock():
    phases = phases_in(
        {
            "clock": {"mono_ns": 50, "wall_ns": 1050},
            "phases": [
                {"name": "measure", "start_ns": 100, "end_ns": 200},
                {"name": "drain", "start_ns": 210, "end_ns": 300},
            ],
        }
    )
    at = np.array([1099, 1100, 1199, 1200, 1210, 1299, 1300])

    assert [phases.names[number] for number in phases.of(at).tolist()] == [
        "outside", "measure", "measure", "outside", "drain", "drain", "outside",
    ]  # fmt: skip
    assert phases.window("measure", "drain") == (1100, 1300)
    assert phases.window("measure", "teardown") is None


def test_a_run_without_phases_is_one():
    phases: Phases = phases_in({"clock": {"mono_ns": 0, "wall_ns": 0}})

    assert [phases.names[number] for number in phases.of(np.array([1, 2])).tolist()] == ["capture", "capture"]
