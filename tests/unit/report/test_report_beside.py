import pytest

from brokerlab.report.beside import beside
from brokerlab.report.results import is_beside

pytestmark = pytest.mark.unit


def timed(kind, group="all", n=3, mean_ms=1.5):
    times = {"mean_ms": mean_ms, "p50_ms": 1.0, "p99_ms": 2.0, "max_ms": 2.5}
    return {"run_id": "a/1", "kind": kind, "group": group, "n": n, **times}


def test_only_what_is_no_load_stands_beside_it():
    rows = [timed("intended"), timed("sent"), timed("there"), timed("device"), timed("intended", "probe")]
    rows += [timed("sent", "probe"), timed("intended", "64 B")]

    assert [is_beside(row) for row in rows] == [False, False, True, True, True, True, False]


def test_each_row_says_what_was_timed():
    table = beside([timed("there"), timed("device"), timed("intended", "probe"), timed("sent", "probe")])

    names = ["to the device", "kept by the device", "probe, since it was due", "probe, since it left"]
    assert [row[1].text for row in table.blocks[0]] == names
    assert beside([]).row_count == 0
