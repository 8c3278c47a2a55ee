"""Comparisons and effects: runs that can be worked out on paper (F-21, F-23, B-20)."""

import pytest
from pipeline_frames import runs_from
from pyspark.testing import assertDataFrameEqual, assertSchemaEqual

from brokerlab.pipeline.reduce.levels import Observation, comparisons, effects
from brokerlab.pipeline.schemas import TABLES
from brokerlab.pipeline.transforms.comparisons import comparisons_table, observed_values
from brokerlab.pipeline.transforms.effects import effects_table

pytestmark = pytest.mark.pipeline

VALUES = "run_id string, metric string, value double, resolution double"
# Four cells of two runs: means 2, 6, 4 and 12 ms.
CELLS = {("a", "0"): (1.0, 3.0), ("a", "1"): (5.0, 7.0), ("b", "0"): (3.0, 5.0), ("b", "1"): (11.0, 13.0)}


def observed(cells=CELLS, set_ups=None):
    return [
        Observation({"broker": broker, "qos": qos}, (set_ups or {}).get(broker, broker), value)
        for (broker, qos), values in cells.items()
        for value in values
    ]


def compared(observations, **keys):
    rows = comparisons(observations, larger_is_better=False, confidence_percent=95)
    return [row for row in rows if all(row[key] == value for key, value in keys.items())]


def test_every_pair_of_levels_in_every_context_they_share():
    rows = compared(observed())

    assert [(row["factor"], row["level_a"], row["level_b"], row["within"], row["method"]) for row in rows] == [
        ("broker", "a", "b", "qos=0", "welch"),
        ("broker", "a", "b", "qos=1", "welch"),
        ("broker", "a", "b", "all", "paired"),
        ("qos", "0", "1", "broker=a", "welch"),
        ("qos", "0", "1", "broker=b", "welch"),
        ("qos", "0", "1", "all", "paired"),
    ]
    assert [row["difference"] for row in rows] == [-2, -6, -4, -4, -8, -6]


def test_a_ranking_is_corrected_for_its_pairs():
    """Three brokers are three pairs: the smallest p counts three times."""
    three = {("a", "0"): (1.0, 3.0), ("b", "0"): (3.0, 5.0), ("c", "0"): (21.0, 23.0)}
    a_b, a_c, b_c = compared(observed(three))

    assert a_c["corrected_p"] == pytest.approx(3 * a_c["p"])
    assert b_c["corrected_p"] == pytest.approx(max(3 * a_c["p"], 2 * b_c["p"]))
    assert a_b["corrected_p"] == pytest.approx(a_b["p"])
    assert (a_b["margin"], a_b["difference_percent"]) == (pytest.approx(0.15), -50)


def test_runs_without_spread_decide_and_a_single_run_does_not():
    steady = {("a", "0"): (1.0, 1.0), ("b", "0"): (2.0, 2.0), ("c", "0"): (2.0, 2.0), ("d", "0"): (9.0,)}
    answers = {(row["level_a"], row["level_b"]): row["answer"] for row in compared(observed(steady))}

    assert answers["a", "b"] == "better"
    assert answers["b", "c"] == "equivalent"
    assert answers["a", "d"] == "not distinguishable"


def test_the_same_broker_under_two_names_sets_the_floor():
    """a and again lie 2 apart, b 1.5 below a: a tie, though its runs agree to the last digit."""
    cells = {("a", "0"): (5.0, 5.0), ("again", "0"): (7.0, 7.0), ("b", "0"): (3.5, 3.5), ("c", "0"): (1.0, 1.0)}
    rows = compared(observed(cells, {"a": "same", "again": "same"}))
    of = {(row["level_a"], row["level_b"]): row for row in rows}

    assert {row["floor"] for row in rows} == {2.0}
    assert [pair for pair, row in of.items() if row["same"]] == [("a", "again")]
    assert (of["a", "b"]["is_tie"], of["a", "b"]["answer"]) == (True, "not distinguishable")
    assert (of["a", "c"]["is_tie"], of["a", "c"]["answer"]) == (False, "worse")
    assert of["a", "again"]["answer"] == "not distinguishable"


def test_without_a_second_name_there_is_no_floor():
    assert all(row["floor"] is None and row["is_tie"] is None for row in compared(observed()))


def test_unknown_set_ups_are_not_taken_for_the_same():
    rows = compared([Observation({"broker": name}, None, 1.0) for name in "aabb"])

    assert [row["same"] for row in rows] == [False]


def test_levels_that_share_no_context_are_not_compared():
    """Broker and QoS vary together: nobody can say which of them it was."""
    assert compared(observed({("a", "0"): (1.0, 2.0), ("b", "1"): (3.0, 4.0)})) == []


def test_numbers_are_in_the_order_of_numbers():
    rows = compared([Observation({"rate": rate}, None, 1.0) for rate in ("100", "20")])

    assert [(row["level_a"], row["level_b"]) for row in rows] == [("20", "100")]


def test_effects_by_hand():
    rows = list(effects(observed()))

    assert [(row["place"], row["effect"], row["degrees"], row["n"]) for row in rows] == [
        (0, "broker", 1, 8),
        (1, "qos", 1, 8),
        (2, "broker × qos", 1, 8),
        (3, "residual", 4, 8),
    ]
    assert [row["f"] for row in rows[:3]] == pytest.approx([16, 36, 4])


def frames(spark):
    """The same runs as rows, with one that is invalid and one without a value; in two metrics."""
    values, runs = [], []
    for (broker, qos), own in CELLS.items():
        for number, value in enumerate(own):
            run = f"{broker}.{qos}/{number}"
            runs.append({"run_id": run, "levels": {"broker": broker, "qos": qos}, "set_up": broker})
            values += [(run, "latency.p99", value, 0.5), (run, "throughput.delivered_per_s", value, None)]
    runs.append({"run_id": "bad", "levels": {"broker": "a", "qos": "0"}, "verdict": "invalid"})
    values += [("bad", "latency.p99", 1e9, 9.0), ("a.0/0", "latency.max", None, None)]
    return spark.createDataFrame(values, VALUES), runs_from(spark, *runs)


def test_tables_hold_what_the_functions_say_of_valid_runs(spark):
    values, runs = frames(spark)
    seen = observed_values(values, runs=runs, set_ups=runs)
    made, shares = comparisons_table(seen, confidence_percent=95), effects_table(seen)
    rows, terms = made.collect(), shares.collect()

    assertSchemaEqual(made.schema, TABLES["comparisons"].columns)
    assertSchemaEqual(shares.schema, TABLES["effects"].columns)
    assert len({tuple(row[name] for name in TABLES["comparisons"].grain) for row in rows}) == len(rows) == 12
    assert len({tuple(row[name] for name in TABLES["effects"].grain) for row in terms}) == len(terms) == 8
    # Which factor comes first is the order of a map, which files keep and a map of literal rows does not.
    expected = sorted(compared(observed()), key=lambda row: row["factor"])
    latency = sorted((row for row in rows if row.metric == "latency.p99"), key=lambda row: row.factor)
    expected = [row | {"levels": dict(row["levels"]), "resolution": 0.5} for row in expected]
    assert [{name: row[name] for name in expected[0]} for row in latency] == expected
    assert {row.difference for row in rows} == {-2, -4, -6, -8}
    assert {row.answer for row in rows if row.metric.startswith("throughput")} <= {"worse", "not distinguishable"}


def test_tables_do_not_depend_on_the_order_of_rows(spark):
    values, runs = frames(spark)
    seen = observed_values(values, runs=runs, set_ups=runs)
    again = observed_values(values.repartition(3, "value"), runs=runs.repartition(2), set_ups=runs)

    for make in (effects_table, lambda frame: comparisons_table(frame, confidence_percent=95)):
        assertDataFrameEqual(make(again), make(seen))


def test_tables_of_nothing(spark):
    values, runs = frames(spark)
    seen = observed_values(values.limit(0), runs=runs, set_ups=runs)

    assert comparisons_table(seen, confidence_percent=95).collect() == []
    assert effects_table(seen).collect() == []
