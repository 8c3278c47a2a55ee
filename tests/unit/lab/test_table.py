"""What the lab makes of a worker's word on the broker's table."""

import numpy as np
import pytest

from brokerlab.lab.table import table_reasons, table_refusals, table_section
from brokerlab.load.spec import Stopped, TableFacts
from brokerlab.stats.histogram import bucket_index
from brokerlab.study.population import client_count
from brokerlab.study.table import FilterTable
from brokerlab.study.values import Guards, Workload

pytestmark = pytest.mark.unit


def worker(**facts):
    sound = {"filled": 10, "fill_s": 0.5, "asked": {"subscribe": 2}, "refused": {}, "standing": 12}
    return Stopped(messages=0, cpu_ns=1, wall_ns=1, table=TableFacts(**(sound | facts)))


OTHER = Stopped(messages=5, cpu_ns=1, wall_ns=1)


def test_sound_table_is_told_and_breaks_nothing():
    section = table_section([OTHER, worker()], FilterTable(table=10, churn_per_s=4.0))

    assert section["filled_per_s"] == 20.0
    assert (section["filters"], section["filled"], section["standing"], section["churn_per_s"]) == (10, 10, 12, 4.0)
    assert section["schedule_lag_ms"] == {"p50": None, "p99": None, "max": None}
    assert table_reasons([OTHER, worker()], Guards()) == table_refusals([OTHER, worker()]) == []


def test_run_without_a_table_has_no_section():
    assert table_section([OTHER], FilterTable()) is None


def test_refusals_are_counted_by_code_and_are_the_brokers():
    refused = worker(refused={"fill": {135: 2, 128: 1}, "subscribe": {}, "unsubscribe": {17: 4}}, unanswered=3)

    assert table_section([refused], FilterTable())["refused"] == {
        "fill": {"135": 2, "128": 1}, "subscribe": {}, "unsubscribe": {"17": 4},
    }  # fmt: skip
    assert table_refusals([refused]) == [
        "the broker refused to fill 3 filters of its table",
        "the broker left 3 changes of subscriptions unanswered",
    ]


def test_lateness_and_what_should_not_have_come_are_reasons():
    lag_ns = 30_000_000
    (bucket,) = bucket_index(np.array([lag_ns])).tolist()
    late = worker(lag_buckets=((bucket, 9),), lag_max_ns=lag_ns, unsent=2, unexpected=1)

    reasons = table_reasons([late], Guards())

    assert [reason.split(":")[0] for reason in reasons[:1]] == ["schedule lag p99 of filters/0"]
    assert reasons[1:] == [
        "2 changes of subscriptions that were due were not handed over",
        "1 messages came by filters that match none of the load's topics",
    ]


def test_its_clients_are_connections():
    assert client_count(Workload(subscriptions=FilterTable(table=1, clients=8))) == 10
    assert client_count(Workload(subscriptions=FilterTable(clients=8))) == 2
