"""The papers' tables and figures of a study: printed next to ours (M-26 to M-28, S-06, S-11, S-14)."""

from dataclasses import replace

import pytest
from report_values import cell_id, results_of, said

from brokerlab.report.capacity import peaks
from brokerlab.report.cells import groups
from brokerlab.report.paper_charts import bar_rows, box_rows, published_figures
from brokerlab.report.paper_tables import equations, stress_rankings, stress_tables
from brokerlab.report.report import render

pytestmark = pytest.mark.unit


def ranked(of, name, value, *, metric="projected_message_rate", kind="non-scalable", qos="0", place=1, **others):
    circumstances = "local" if of == "002" else ""
    about = {"metric": metric, "of": of, "circumstances": circumstances, "qos": qos, "kind": kind, "name": name}
    own = {"broker": name.lower().removesuffix("-again"), "version": "1", "value": value, "unit": "1/s", "place": place}
    return (
        about | own | {"low": None, "high": None, "n": 2, "extrapolates": None, "floor": None, "is_tie": None} | others
    )


def test_a_stress_table_has_printed_and_ours_in_one_row_and_flags_extrapolation():
    rows = [
        ranked("002", "Mosquitto", 37983.15), ranked("002", "Mosquitto", 1.65, metric="average_latency"),
        ranked("002", "Bevywise", 33533.14, place=2), ranked("002", "EMQX", 7.0, kind="scalable"),
        ranked("ours", "mosquitto", 90_000.0, extrapolates=True), ranked("ours", "nats", 5.0, kind="scalable"),
        ranked("ours", "rumqttd", 60_000.0, extrapolates=False, place=2),
    ]  # fmt: skip
    tables = dict(stress_tables(rows))

    assert list(tables) == [
        "Table 6: non-scalable brokers, local, and ours",
        "Table 8: scalable brokers, local, and ours",
    ]
    table = tables["Table 6: non-scalable brokers, local, and ours"]
    assert said(table, "Broker") == ["mosquitto", "Bevywise, not here", "rumqttd"]
    assert said(table, "Projected") == ["37,983.15", "33,533.14", "–"]
    (first, _, third) = table.blocks[0]
    assert [entry.text for entry in first if entry.below == "extrapolation"] == ["90,000"]
    assert not any(entry.below == "extrapolation" for entry in third)


def test_rankings_per_qos_tell_ties_within_the_noise_floor():
    rows = [
        ranked("002", "Mosquitto", 30.0), ranked("002", "HiveMQ", 20.0, place=2),
        ranked("ours", "nats", 300.0, floor=4.0), ranked("ours", "mosquitto", 100.0, place=2, floor=4.0, is_tie=False),
        ranked("ours", "mosquitto-again", 96.0, place=3, floor=4.0, is_tie=True),
        ranked("002", "Mosquitto", 30.0, qos="2"),  # a QoS that we do not have is no ranking of ours
    ]  # fmt: skip
    table = stress_rankings(rows)

    assert said(table, "Whose") == ["printed, local", "ours"]
    orders = said(table, "Order, the best first")
    assert orders == ["Mosquitto 30.0 > HiveMQ 20.0", "nats 300 > mosquitto 100 = mosquitto-again 96.0"]
    assert "noise floor of 4.00 1/s" in table.blocks[0][1][3].below
    assert stress_rankings([row for row in rows if row["of"] == "ours"]).row_count == 0  # not beside that paper


@pytest.fixture
def study():
    """Mosquitto at QoS 0, one valid run and one that is not, beside paper 000."""
    results = results_of({("mosquitto", 0): (1.0, None, None)}, runs=1, invalid={("mosquitto", 0): 1})
    cell = cell_id("mosquitto", 0)
    names = {"7": (4.0, 5.0), "8": (4.5, 4.5), "9": (4.0, 4.0), "10": (0.5, 4.0), "11": (1.11, 10.0)}
    names |= {"availability": (None, 90.0), "month of 100000 a day": (None, 120_000.0)}
    names |= {"month of 218772 a day": (None, 262_526.4), "hours of a month": (None, 28.8)}
    rows = [
        {"run_id": f"{cell}/{run}", "cell": cell, "equation": name, "as_printed": one, "corrected": other}
        for run in (1, 2)
        for name, (one, other) in names.items()
    ]
    box = {"cell": cell, "n": 9, "min_ms": 0.9, "q1_ms": 2.0, "median_ms": 3.0, "q3_ms": 4.0, "max_ms": 20.0}
    box |= {"low_whisker_ms": 1.0, "high_whisker_ms": 4.0, "outliers": 1, "outliers_ms": [20.0]}
    return replace(results, equations=tuple(rows), boxes=(box,), published=(
        printed("failure_rate", "8.72", "%"), printed("undelivered_messages", ">250000", "msg/month"),
        printed("availability", "100", "%", broker="ALL(3)", qos="0|1|2"),
        printed("failure_rate", "0.26", "%", qos="1"),
        printed("responsiveness_pub_to_sub", "340", "ms", statistic="median"),
        printed("responsiveness_pub_to_sub", "<3", "ms", statistic="q3"),
    ))  # fmt: skip


def printed(metric, text, unit, *, broker="Mosquitto", qos="0", statistic=None):
    about = {"source": "000/intext", "metric": metric, "printed": text, "unit": unit, "statistic": statistic}
    value = float(text.lstrip("<>"))
    beside = dict.fromkeys(("environment", "interval_ms", "variant", "cell", "our_qos", "others", "same_place"))
    return about | beside | {"printed_broker": broker, "qos": qos, "printed_value": value}


def test_equations_of_every_run_stand_beside_what_was_printed(study):
    table = equations(study, groups(study))
    valid, invalid = table.blocks[0]

    assert [entry.below for entry in (valid[1], invalid[1])] == ["", "not valid"]
    corrected = {column.title: entry for column, entry in zip(table.columns, valid, strict=True)}
    assert (corrected["Eq. 10, corrected"].text, corrected["Eq. 10, corrected"].below) == ("4.00", "000: 8.72 %")
    assert corrected["Availability"].below == "000: 100 %"
    months = [entry for column, entry in zip(table.columns, valid, strict=True) if column.title == "Lost a month"]
    assert [entry.text for entry in months] == ["120,000", "262,526"]
    assert months[0].below == "000: >250000 msg/month"


def test_figure_10_has_boxes_outliers_and_the_printed_values_that_are_no_bounds(study):
    rows = box_rows(study, groups(study))

    assert [(row["kind"], row.get("value")) for row in rows] == [("box", None), ("outlier", 20.0), ("printed", 340.0)]


def test_figures_of_bars_need_both_sides_and_keep_the_paper_first():
    rows = [
        ranked("ours", "mosquitto", 5.0),
        ranked("002", "Mosquitto", 3.0),
        ranked("ours", "nats", 9.0, kind="scalable"),
    ]
    chosen = {"paper": "002", "metric": "projected_message_rate"}

    assert [row["panel"] for row in bar_rows(rows, kind="non-scalable", **chosen)] == ["002 printed, local", "ours"]
    assert bar_rows(rows, kind="scalable", **chosen) == []


def test_the_page_has_the_papers_figures_and_tables(study):
    rankings = [ranked("ours", "mosquitto", 5.0), ranked("002", "Mosquitto", 3.0)]
    rankings += [ranked("000", "Mosquitto", 163.0, metric="throughput_brk_to_sub")]
    rankings += [ranked("ours", "mosquitto", 500.0, metric="throughput_brk_to_sub")]
    whole = replace(study, rankings=tuple(rankings))
    names = [figure.name for figure in published_figures(whole, groups(whole))]
    page = render(whole)

    assert names == ["000-fig10", "002-fig6", "000-fig11"]
    for name in names:
        assert f'id="chart-{name}"' in page
    assert "Table 6: non-scalable brokers, local, and ours" in page
    assert "000: 8.72 %" in page


def test_every_run_of_a_saturating_load_is_shown_also_one_that_is_not_valid():
    """S-06: no best of three is chosen."""
    results = results_of({("mosquitto", 0): (1.0, None, None)}, runs=2, invalid={("mosquitto", 0): 1})
    runs = [row | {"arrivals": "saturate", "window": 8} for row in results.runs]
    rates = [
        {"run_id": row["run_id"], "window": window, "delivered_per_s": 10.0 + place, "published_per_s": 2.0}
        for place, row in enumerate(runs)
        for window in ("send", "delivery")
    ]
    table = peaks(replace(results, runs=runs, throughput=tuple(rates)), groups(replace(results, runs=runs)))

    assert said(table, "Delivered") == ["10", "11", "12"]
    assert [row[1].below for row in table.blocks[0]] == ["", "", "not valid"]
