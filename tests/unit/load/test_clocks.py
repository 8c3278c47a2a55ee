"""Clocks of several machines: offsets with a bound, words and files in the time of who reads them."""

import itertools

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from brokerlab.load.clocks import SAME, Clock, compare, publish_files, to_lab, to_worker, translated
from brokerlab.load.spec import Connect, Drain, Go, Granted, Halt, Left, Retime, Stopped, Subscribed
from brokerlab.record.schemas import DELIVERIES, PUBLICATIONS

pytestmark = pytest.mark.unit

AHEAD = Clock(offset_ns=-1_000_000, bound_ns=300)  # its clock is a millisecond ahead of the lab's


def test_the_quickest_exchange_tells_the_offset_and_how_well_it_is_known():
    """Round trips of 1000, 200 and 600 ns; the clock that answers is 5000 ns ahead, half way in the quickest."""
    lab = itertools.chain.from_iterable([(0, 1000), (2000, 2200), (3000, 3600)])
    answers = iter([5900, 7100, 8050])

    clock = compare(lambda: next(answers), lambda: next(lab), exchanges=3)

    assert clock == Clock(offset_ns=2100 - 7100, bound_ns=100)


@pytest.mark.parametrize(
    ("order", "there"),
    [
        (Go(10_000_000, 20_000_000, 30_000_000, number=3), Go(11_000_000, 21_000_000, 31_000_000, number=3)),
        (Connect(1.5, 4_000_000), Connect(1.5, 5_000_000)),
        (Drain(7, 9_000_000, 500), Drain(7, 10_000_000, 500)),
        (Retime(Go(1, 2, 3)), Retime(Go(1_000_001, 1_000_002, 1_000_003))),
        (Halt(), Halt()),
    ],
)
def test_orders_arrive_in_the_workers_time(order, there):
    assert to_worker(order, AHEAD) == there
    assert to_worker(order, SAME) is order


def test_answers_arrive_in_the_labs_time():
    assert to_lab(Subscribed((Granted(0, (1,), asked_ns=5_000_000),)), AHEAD).granted[0].asked_ns == 4_000_000
    assert to_lab(Left(((2, 3_000_000),), (1,), 4), AHEAD) == Left(((2, 2_000_000),), (1,), 4)
    assert to_lab(Stopped(1, 2, 3), AHEAD).first_ns == 0
    assert to_lab(Stopped(1, 2, 3, first_ns=1_500_000), AHEAD).first_ns == 500_000


def delivery(**columns):
    known = {"subscriber": 0, "publisher": 0, "seq": 0, "intended_ns": 10_000_000, "received_ns": 12_000_000}
    return pa.Table.from_pylist([{**known, "resolution_ns": 50, **columns}], schema=DELIVERIES)


def test_a_delivery_keeps_its_identity_and_its_resolution_grows_by_both_bounds():
    """Sent by a clock that is 2 ms behind, received by one that is 1 ms ahead."""
    behind = Clock(offset_ns=2_000_000, bound_ns=400)
    sent = pa.Table.from_pylist(
        [{"publisher": 0, "seq": 0, "topic": "t", "intended_ns": 10_000_000, "sent_ns": 10_000_100, "acked_ns": None}],
        schema=PUBLICATIONS,
    )
    (published,) = translated(sent, "publications", behind, {}).to_pylist()
    (arrived,) = translated(delivery(), "deliveries", AHEAD, {0: behind}).to_pylist()

    assert (published["intended_ns"], published["sent_ns"], published["acked_ns"]) == (12_000_000, 12_000_100, None)
    assert (arrived["intended_ns"], arrived["received_ns"]) == (12_000_000, 11_000_000)
    assert arrived["resolution_ns"] == 50 + 400 + 300


def test_publisher_and_subscriber_of_one_machine_share_the_error_which_is_none():
    (arrived,) = translated(delivery(intended_ns=None), "deliveries", AHEAD, {0: AHEAD}).to_pylist()

    assert (arrived["intended_ns"], arrived["resolution_ns"]) == (None, 50)


def test_files_come_to_the_run_directory_under_their_names(tmp_path):
    staged = tmp_path / ".staged"
    (staged / "deliveries").mkdir(parents=True)
    pq.write_table(delivery(), staged / "deliveries" / "subscribers-0-00000.parquet")

    publish_files(staged, tmp_path, AHEAD, {})

    (row,) = pq.read_table(tmp_path / "deliveries" / "subscribers-0-00000.parquet").to_pylist()
    assert row["received_ns"] == 11_000_000
    assert [path.name for path in (tmp_path / "deliveries").iterdir()] == ["subscribers-0-00000.parquet"]
