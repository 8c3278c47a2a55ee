"""The formats in which brokers tell their counters."""

import base64

import pytest

from brokerlab.brokers.telling import basic, json_numbers, prometheus

PAGE = """\
# HELP received_total Messages.
# TYPE received_total counter
received_total{qos="1",node="a b"} 13 1700000000000
received_total{node="a b",qos="0"} 1.1e1
connections 3
  indented 4
broken{ 5
nothing NaN
endless +Inf
odd{path="a\\"}b"} 7
"""


def test_prometheus_names_each_series_by_its_sorted_labels_and_adds_them_up():
    assert prometheus(PAGE) == {
        'received_total{node="a b",qos="1"}': 13.0,
        'received_total{node="a b",qos="0"}': 11.0,
        "received_total": 24.0,
        "connections": 3.0,
        'odd{path="a\\"}b"}': 7.0,
        "odd": 7.0,
    }


def test_prometheus_without_a_series_is_empty():
    assert prometheus("") == prometheus("# nothing\n<html>\n") == {}


def test_json_values_are_named_by_their_path():
    text = '{"in": 2, "is_up": true, "who": "me", "mqtt": {"nodes": [{"queued": 1.5}, {"queued": 0}]}, "no": null}'

    assert json_numbers(text) == {"in": 2.0, "mqtt.nodes.0.queued": 1.5, "mqtt.nodes.1.queued": 0.0}


def test_a_page_that_is_no_json_is_a_value_error():
    with pytest.raises(ValueError, match="Expecting"):
        json_numbers("<html>")


def test_basic_authentication():
    (value,) = basic("user", "pass:word").values()

    assert base64.b64decode(value.removeprefix("Basic ")) == b"user:pass:word"
