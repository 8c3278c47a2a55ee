"""Latency and losses within nodes and between them, as the report says them (design section 10)."""

import pytest

from brokerlab.report.crossing import crossing

pytestmark = pytest.mark.unit


def latency(group, p99_ms):
    return {"run_id": "a/1", "group": group, "n": 10, "mean_ms": 1.0, "p50_ms": 1.0, "p99_ms": p99_ms, "max_ms": 9.0}


def texts(table):
    return [[entry.text for entry in row] for block in table.blocks for row in block]


def test_what_was_lost_is_told_for_each_way():
    """Of 5 lost 3 had to cross; those of the second QoS granted add up."""
    delivery = [
        {"run_id": "a/1", "lost": 4, "crossing_expected": 10, "crossing_delivered": 8},
        {"run_id": "a/1", "lost": 1, "crossing_expected": 10, "crossing_delivered": 9},
    ]
    rows = texts(crossing([latency("local", 2.0), latency("crossing", 7.0)], delivery))

    assert [(row[1], row[-1]) for row in rows] == [("within one node", "2"), ("from one node to another", "3")]


def test_one_node_has_no_such_table():
    assert crossing([], [{"run_id": "a/1", "lost": 0, "crossing_expected": None}]).row_count == 0
