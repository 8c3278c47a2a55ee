"""What papers print beside ours: ratios, places, equations as printed and corrected (M-26 to M-28, S-14)."""

import pytest
from pyspark.testing import assertSchemaEqual

from brokerlab.pipeline.schemas.boxes import BOXES
from brokerlab.pipeline.schemas.delivery import DELIVERY
from brokerlab.pipeline.schemas.equations import EQUATIONS
from brokerlab.pipeline.schemas.histogram import TABLE as HISTOGRAM
from brokerlab.pipeline.schemas.latency import LATENCY
from brokerlab.pipeline.schemas.legs import LEGS
from brokerlab.pipeline.schemas.printed import OURS, VALUES
from brokerlab.pipeline.schemas.published import TABLE
from brokerlab.pipeline.schemas.rankings import RANKINGS
from brokerlab.pipeline.schemas.runs import RUNS
from brokerlab.pipeline.schemas.throughput import THROUGHPUT
from brokerlab.pipeline.sources import small_frame
from brokerlab.pipeline.transforms.boxes import boxes_table
from brokerlab.pipeline.transforms.equations import equations_table
from brokerlab.pipeline.transforms.published import published_table
from brokerlab.pipeline.transforms.rankings import rankings_table

pytestmark = pytest.mark.pipeline
MS = 1_000_000


def printed(broker, value, *, metric="projected_message_rate", qos="0", bound="", **others):
    about = {"source": "002/table8", "environment": "local", "metric": metric, "qos": qos, "kind": "scalable"}
    own = {"broker": broker, "printed_broker": broker.upper(), "value": value, "printed": f"{bound}{value}"}
    return dict.fromkeys(VALUES.names) | about | own | {"bound": bound, "unit": "msg/s", "note": ""} | others


def ours(broker, value, *, name=None, metric="projected_message_rate", qos="0", **others):
    own = {"metric": metric, "broker": broker, "our_broker": name or broker, "our_qos": qos, "our_value": value}
    about = {"cell": f"{name or broker}.{qos}", "others": "", "lowest": False, "kind": "scalable", "our_n": 2}
    return dict.fromkeys(OURS.names) | own | about | others


@pytest.fixture(scope="module")
def both(spark):
    """As printed a 40, b 20, c 10 and a bound of d; ours a 100 and 96 under two names, b 300, d 7, e 98; no c."""
    papers = [printed("a", 40.0), printed("b", 20.0), printed("c", 10.0), printed("d", 9.0, bound="<")]
    lab = [ours("a", 100.0), ours("a", 96.0, name="a-again"), ours("b", 300.0), ours("d", 7.0), ours("e", 98.0)]
    lab.append(ours("b", 1.0, qos="1"))  # a QoS that is not printed
    return small_frame(spark, papers, VALUES), small_frame(spark, lab, OURS)


def test_ratios_and_places_are_among_the_brokers_of_both(both):
    table = published_table(both[0], ours=both[1])
    rows = {(row.printed_broker, row.our_broker): row for row in table.collect()}

    assertSchemaEqual(table.schema, TABLE.columns)
    assert set(rows) == {("A", "a"), ("A", "a-again"), ("B", "b"), ("C", None), ("D", "d")}
    a, b = rows["A", "a"], rows["B", "b"]
    assert (a.compared, a.printed_ratio, a.our_ratio, a.printed_rank, a.our_rank) == (2, 1.0, 1.0, 1, 2)
    assert (b.compared, b.printed_ratio, b.our_ratio, b.printed_rank, b.our_rank) == (2, 0.5, 3.0, 2, 1)
    assert (a.same_place, b.same_place) == (False, False)
    for row in (rows["A", "a-again"], rows["C", None], rows["D", "d"]):  # a second name, none of ours, a bound
        assert (row.compared, row.our_rank, row.our_ratio) == (None, None, None)


def test_statistics_stand_beside_their_own(spark):
    """A printed minimum is not held against a median (M-27)."""
    metric = "responsiveness_pub_to_sub"
    papers = [
        printed("a", 0.25, metric=metric, statistic="min"),
        printed("a", 340.0, metric=metric, statistic="median"),
    ]
    lab = [ours("a", 1.0, metric=metric, our_statistic="min"), ours("a", 2.0, metric=metric, our_statistic="median")]
    table = published_table(small_frame(spark, papers, VALUES), ours=small_frame(spark, lab, OURS))

    assert sorted((row.statistic, row.our_value) for row in table.collect()) == [("median", 2.0), ("min", 1.0)]


def test_several_levels_printed_as_one_are_compared_level_by_level(spark):
    papers = [printed("a", 5.0, qos="0|1"), printed("b", 3.0, qos="0|1")]
    lab = [ours("a", 9.0), ours("b", 8.0), ours("a", 1.0, qos="1"), ours("b", 2.0, qos="1")]
    table = published_table(small_frame(spark, papers, VALUES), ours=small_frame(spark, lab, OURS))

    places = {(row.printed_broker, row.our_qos): (row.compared, row.our_rank) for row in table.collect()}
    assert places == {("A", "0"): (2, 1), ("B", "0"): (2, 2), ("A", "1"): (2, 2), ("B", "1"): (2, 1)}


def test_rankings_hold_every_broker_of_a_paper_and_of_ours_with_ties_inside_the_floor(both):
    """S-14, F-21: two names of one broker lie 4 apart, so that 100, 98 and 96 are ties; 300 is not."""
    table = rankings_table(both[0], ours=both[1], same=["a", "a-again"])
    rows = [row for row in table.collect() if row.qos == "0"]

    assertSchemaEqual(table.schema, RANKINGS)
    theirs = [(row.name, row.place) for row in rows if row.of == "002"]
    assert theirs == [("A", 1), ("B", 2), ("C", 3)]  # a bound has no place
    mine = [(row.name, row.place, row.is_tie, row.floor) for row in rows if row.of == "ours"]
    assert mine == [
        ("b", 1, None, 4.0), ("a", 2, False, 4.0), ("e", 3, True, 4.0), ("a-again", 4, True, 4.0), ("d", 5, False, 4.0),
    ]  # fmt: skip


def test_environments_of_ours_are_ranked_apart(spark):
    """S-01, F-11: levels of other factors make a ranking of their own."""
    lab = [ours("a", 1.0, others="cpus 1"), ours("b", 2.0, others="cpus 1"), ours("a", 9.0, others="cpus 2")]
    table = rankings_table(small_frame(spark, [], VALUES), ours=small_frame(spark, lab, OURS), same=[])

    places = [(row.circumstances, row.name, row.place, row.is_tie) for row in table.collect()]
    assert places == [("cpus 1", "b", 1, None), ("cpus 1", "a", 2, None), ("cpus 2", "a", 1, None)]


@pytest.fixture(scope="module")
def equations(spark):
    """Ten published in 2 s, nine came, eight left: run a/1 captured, b/1 not and at QoS 0; 100 expected, 4 lost."""

    def frame(schema, *rows):
        return small_frame(spark, [dict.fromkeys(schema.names) | row for row in rows], schema)

    both = [{"run_id": "a/1", "cell": "a"}, {"run_id": "b/1", "cell": "b"}]
    time = {"kind": "intended", "group": "all", "n": 8, "mean_ms": 5.0}
    rate = {"window": "delivery", "seconds": 4.0, "published": 10, "delivered": 8}
    taps = (("publisher", "to broker", 10), ("broker", "to broker", 9), ("broker", "from broker", 8))
    seen = [{"tap": tap, "leg": leg, "messages": n, "whole_window_s": 2.0} for tap, leg, n in taps]
    table = equations_table(
        runs=frame(RUNS, *both),
        latency=frame(LATENCY, *(run | time for run in both)),
        delivery=frame(DELIVERY, *(run | {"expected": 100, "lost": 4} for run in both)),
        throughput=frame(THROUGHPUT, *(run | rate for run in both)),
        legs=frame(LEGS, *(both[0] | each for each in seen)),
    )
    assertSchemaEqual(table.schema, EQUATIONS)
    return {(row.run_id, row.equation): row for row in table.collect()}


def test_equations_7_to_11_as_printed_and_as_corrected(equations):
    """M-26: 40 ms over ten published or over eight that came; (9 - 8) in 2 s or 4 %; 10/9 or one in ten."""
    found = {name: equations["a/1", name] for name in ("7", "8", "9", "10", "11", "availability")}
    told = {name: (row.as_printed, row.corrected) for name, row in found.items()}

    assert told["7"] == (4.0, 5.0)
    assert told["8"] == (4.5, 4.5)
    assert told["9"] == (4.0, 4.0)
    assert told["10"] == (0.5, 4.0)
    assert told["11"] == (pytest.approx(10 / 9), pytest.approx(10.0))
    assert told["availability"] == (None, pytest.approx(90.0))
    assert {row.seen_by for name, row in found.items() if name != "7"} == {"captures"}


def test_the_month_is_reckoned_with_both_counts(equations):
    """M-28: 4 % of 100,000 and of 218,772 messages a day for thirty days, and of 720 hours."""
    months = [equations["a/1", f"month of {count} a day"].corrected for count in (100_000, 218_772)]

    assert months == pytest.approx([120_000, 262_526.4])
    assert equations["a/1", "hours of a month"].corrected == pytest.approx(28.8)


def test_without_a_capture_nobody_knows_what_came_in_at_qos_0(equations):
    assert equations["b/1", "9"].corrected == 2.0
    assert equations["b/1", "9"].seen_by == "clients"
    for name in ("8", "11", "availability"):
        assert (equations["b/1", name].as_printed, equations["b/1", name].corrected) == (None, None)


def test_boxes_of_the_runs_of_a_cell_together(spark):
    """M-27: 1, 2, 3, 4 ms in two valid runs and a third beside them at 20 ms; an invalid run does not count."""
    runs = [("c/1", "valid"), ("c/2", "valid"), ("c/3", "invalid")]
    whole = {"cell": "c", "kind": "intended", "group": "all"}
    times = {"c/1": {1: 2, 2: 2, 20: 1}, "c/2": {3: 2, 4: 2}, "c/3": {90: 9}}
    buckets = [
        whole | {"run_id": run, "bucket": ms, "low_ns": (ms - 1) * MS, "high_ns": ms * MS, "n": n}
        for run, counts in times.items()
        for ms, n in counts.items()
    ]
    ends = [whole | {"run_id": run, "min_ms": 0.9, "max_ms": float(max(counts))} for run, counts in times.items()]

    def frame(schema, rows):
        return small_frame(spark, [dict.fromkeys(schema.names) | row for row in rows], schema)

    table = boxes_table(
        frame(HISTOGRAM.columns, buckets),
        latency=frame(LATENCY, ends),
        runs=frame(RUNS, [{"run_id": run, "verdict": verdict} for run, verdict in runs]),
    )
    (box,) = table.collect()

    assertSchemaEqual(table.schema, BOXES)
    assert (box.n, box.min_ms, box.q1_ms, box.median_ms, box.q3_ms, box.max_ms) == (9, 0.9, 2.0, 3.0, 4.0, 20.0)
    assert (box.low_whisker_ms, box.high_whisker_ms, box.outliers, box.outliers_ms) == (1.0, 4.0, 1, [20.0])
