"""Single messages as 003's Figures 6 and 7 draw them (C-07)."""

from types import SimpleNamespace

from brokerlab.report.cells import CellResult, Group
from brokerlab.report.trace_charts import charts


def cell(name, role, rate, qos=0, **levels):
    shown = {"role": role, "rate": str(rate), "qos": str(qos)} | levels
    runs = tuple({"run_id": f"{name}/{at}", "levels": shown, "verdict": "valid"} for at in (1, 2))
    return CellResult(name, name.split("-")[0], qos, tuple(shown.items()), runs)


def trace(run_id, *times):
    """Messages as (apart, latency)."""
    return [
        {"run_id": run_id, "subscriber": 0, "publisher": 0, "place": at, "message": None if late is None else at,
         "apart_ms": apart, "latency_ms": late}
        for at, (apart, late) in enumerate(times, start=1)
    ]  # fmt: skip


def drawn(traces, *cells):
    results = SimpleNamespace(traces=traces)
    return {name: (chart, caption) for name, chart, _, caption in charts(results, [Group((), cells)])}


def values(chart):
    (found,) = chart.to_dict()["datasets"].values()
    return found


def test_figure_6_has_the_last_25_arrivals_and_at_a_second_the_first():
    fast, slow = cell("nats-fast", "one-way", 10.0), cell("nats-slow", "one-way", 1.0)
    times = [(None, 1.0), *((float(at), 1.0) for at in range(2, 41))]

    chart, _ = drawn([*trace("nats-fast/1", *times), *trace("nats-slow/1", *times)], fast, slow)["arrivals"]

    shown = {}
    for row in values(chart):
        shown.setdefault(row["group"], []).append((row["x"], row["y"]))
    assert list(shown) == ["every 100 ms", "every 1,000 ms"]
    assert shown["every 100 ms"] == [(at, float(at)) for at in range(16, 41)]
    assert shown["every 1,000 ms"] == [(at, float(at)) for at in range(2, 27)]


def test_figure_6_is_of_messages_one_way_at_qos_0():
    echo, loud = cell("nats-echo", "echo", 10.0), cell("nats-1", "one-way", 10.0, qos=1)
    traces = [*trace("nats-echo/1", (None, 1.0), (5.0, 1.0)), *trace("nats-1/1", (None, 1.0), (5.0, 1.0))]

    assert "arrivals" not in drawn(traces, echo, loud)


def test_figure_7_has_the_latency_of_every_message_by_qos_and_window_at_half_a_second():
    one = cell("nats-a", "echo", 2.0, qos=1, inflight="1")
    many = cell("nats-b", "echo", 2.0, qos=1, inflight="20")
    other = cell("nats-c", "echo", 10.0, qos=1, inflight="20")
    traces = [
        *trace("nats-a/1", (None, 50.0), (500.0, 90.0)),
        *trace("nats-b/1", (None, 40.0), (500.0, None)),
        *trace("nats-c/1", (None, 1.0)),
    ]

    chart, caption = drawn(traces, one, many, other)["messages"]

    assert [(row["group"], row["x"], row["y"]) for row in values(chart)] == [
        ("every 500 ms, QoS 1, inflight 1", 1, 50.0),
        ("every 500 ms, QoS 1, inflight 1", 2, 90.0),
        ("every 500 ms, QoS 1, inflight 20", 1, 40.0),
    ]
    assert "the study's nearest" not in caption


def test_figure_7_at_another_interval_says_so():
    _, caption = drawn(trace("nats-a/1", (None, 1.0)), cell("nats-a", "echo", 10.0))["messages"]

    assert "here 100 ms, the study's nearest" in caption


def test_the_first_run_of_a_cell_is_drawn():
    traces = [*trace("nats-a/2", (None, 9.0)), *trace("nats-a/1", (None, 1.0))]

    chart, _ = drawn(traces, cell("nats-a", "echo", 2.0))["messages"]

    assert [row["y"] for row in values(chart)] == [1.0]


def test_without_traces_nothing_is_drawn():
    assert drawn([], cell("nats-a", "echo", 2.0), cell("nats-b", "one-way", 2.0)) == {}
