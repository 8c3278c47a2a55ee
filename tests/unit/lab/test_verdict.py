import numpy as np
import pytest

from brokerlab.lab.guards import meter_reasons, untaken_reasons
from brokerlab.lab.verdict import COLLAPSED, INVALID, VALID, collapse_reasons, judge, read_meter, window_section
from brokerlab.load.spec import Granted, Held, Stopped
from brokerlab.stats.histogram import bucket_index
from brokerlab.study.values import Guards

pytestmark = pytest.mark.unit


def stopped(**facts):
    return Stopped(**({"messages": 100, "cpu_ns": 200_000_000, "wall_ns": 1_000_000_000} | facts))


def lag(*lags_ns):
    buckets, counts = np.unique(bucket_index(np.array(lags_ns, dtype=np.int64)), return_counts=True)
    return {"lag_buckets": tuple(zip(buckets.tolist(), counts.tolist(), strict=True)), "lag_max_ns": max(lags_ns)}


def test_an_idle_generator_on_time_breaks_no_guard():
    meter = read_meter({"publishers/0": stopped(**lag(*[100_000] * 99, 900_000))})

    assert meter_reasons(meter, Guards()) == []
    assert meter.cpu_percent == {"publishers/0": 20.0}
    assert meter.lag_max_ms == 0.9


def test_a_busy_worker_is_named_with_its_share():
    meter = read_meter({"publishers/0": stopped(cpu_ns=710_000_000), "subscribers/0": stopped(cpu_ns=790_000_000)})

    assert meter_reasons(meter, Guards()) == ["generator CPU of publishers/0: 71 % is above 70 %"]


def test_subscribers_have_a_limit_of_their_own():
    meter = read_meter({"subscribers/0": stopped(cpu_ns=810_000_000)})

    assert meter_reasons(meter, Guards()) == ["generator CPU of subscribers/0: 81 % is above 80 %"]


def test_bytes_that_waited_for_the_subscriber_make_a_run_invalid():
    waited = {name.replace("lag", "receive_lag"): value for name, value in lag(*[30_000_000] * 10).items()}
    meter = read_meter({"publishers/0": stopped(**lag(1_000)), "subscribers/0": stopped(**waited)})

    assert meter.receive_lag_max_ms == 30
    (reason,) = meter_reasons(meter, Guards())
    assert reason.startswith("receive lag p99: ")
    assert "is above 20 ms" in reason


def test_what_held_a_worker_back_makes_a_run_invalid_where_it_is_more_than_the_limit():
    held = {"publishers/0": stopped(held=Held(25.1, 5.1)), "publishers/1": stopped(held=Held(25.0, 5.0))}

    assert meter_reasons(read_meter(held), Guards()) == [
        "CPU quota: publishers/0 was out of time for 5.1 % of a core in the measure phase, more than 5 %",
        "stalls: publishers/0 lost 25.1 % of the measure phase by waking late, more than 25 %: something held it back",
    ]


@pytest.mark.parametrize(("kind", "begin"), [("lag", "schedule lag"), ("receive_lag", "receive lag")])
def test_each_worker_is_judged_alone_and_what_all_have_together_is_told(kind, begin):
    """One late worker among many is not seen in the quantile of all, and its own messages are late all the same."""
    lags = {"publishers/0": lag(*[1_000] * 1000), "publishers/1": lag(*[90_000_000] * 9), "devices/0": lag(30_000_000)}
    meter = read_meter(
        {node: stopped(**{name.replace("lag", kind, 1): value for name, value in each.items()})
         for node, each in lags.items()}
    )  # fmt: skip

    together = meter.lag_p99_ms if kind == "lag" else meter.receive_lag_p99_ms
    assert together < 0.01
    (reason,) = meter_reasons(meter, Guards())
    assert reason.startswith(f"{begin} p99 of publishers/1: 89.65 ms")


def test_of_all_workers_the_lag_is_merged_before_its_quantile_is_taken():
    late, punctual = stopped(**lag(*[9_000_000] * 2)), stopped(**lag(*[1_000] * 98))

    assert read_meter({"publishers/0": late, "publishers/1": punctual}).lag_p99_ms == pytest.approx(9, rel=0.01)


def test_few_probes_that_leave_late_do_not_make_a_load_invalid():
    assert meter_reasons(read_meter({"probe/0": stopped(**lag(9_000_000))}), Guards()) == []


def test_a_window_that_was_still_too_narrow_makes_a_run_invalid():
    settled, growing = stopped(window=512), stopped(window=256, is_window_cut_short=True)

    assert meter_reasons(read_meter({"publishers/0": settled}), Guards()) == []
    (reason,) = meter_reasons(read_meter({"publishers/0": growing, "subscribers/0": stopped()}), Guards())
    assert reason.startswith("a window of 256 messages was the limit: the warm-up")


def test_the_widest_window_makes_a_run_invalid_if_it_was_too_narrow():
    widest = stopped(window=512, is_widest_window_narrow=True)

    (reason,) = meter_reasons(read_meter({"publishers/0": widest}), Guards())
    assert reason.startswith("a window of 512 messages was the limit: messages hardly waited")


def test_messages_that_were_never_handed_over_make_a_run_invalid():
    meter = read_meter({"publishers/0": stopped(unsent=3)})

    assert meter_reasons(meter, Guards()) == ["3 messages that were due were not handed over before the end of drain"]
    assert untaken_reasons(meter) == []


def test_those_that_the_broker_did_not_take_are_its_own():
    meter = read_meter({"publishers/0": stopped(unsent=3, untaken=2), "publishers/1": stopped(unsent=5, untaken=5)})

    assert meter_reasons(meter, Guards()) == ["1 messages that were due were not handed over before the end of drain"]
    (reason,) = untaken_reasons(meter)
    assert reason.startswith("the broker did not take 7 messages")


def test_closed_connections_and_refused_subscriptions_are_a_collapse():
    closed = {"publishers/0": stopped(closed_by_broker=("bl1p0: reset", "bl1p1: reset"))}

    reasons = collapse_reasons(closed, [Granted(0, (1,)), Granted(1, (1, 135))])

    assert reasons == [
        "the broker ended 2 connections; the first: bl1p0: reset",
        "the broker refused the subscriptions of 1 subscribers",
    ]


def test_a_device_whose_subscription_was_refused_is_a_collapse():
    reasons = collapse_reasons({}, [Granted(0, (1,))], [Granted(0, (1,)), Granted(1, (128,))])

    assert reasons == ["the broker refused the subscriptions of 1 devices"]


def test_a_collapse_outweighs_a_broken_guard():
    assert judge([], []).value == VALID
    assert judge([], ["late"]).value == INVALID
    assert judge(["dead"], ["late"]).reasons == ("dead", "late")
    assert judge(["dead"], ["late"]).value == COLLAPSED


def test_the_manifest_tells_the_window_and_the_pace_at_which_it_was_read():
    section = window_section([Stopped(1, 1, 1, window=8192), Stopped(1, 1, 1, reading_pause_s=0.004)])

    assert section["window"] == 8192
    assert section["reading_pause_s"] == 0.004
    assert window_section([Stopped(1, 1, 1)])["reading_pause_s"] is None
