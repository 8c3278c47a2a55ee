"""Limits, threads and open files in the report."""

from dataclasses import replace

import pytest
from report_values import cell_id, results_of

from brokerlab.report.cells import groups
from brokerlab.report.nodes import held_back, limits_text, nodes

pytestmark = pytest.mark.unit

ASKED = {"cpus": 0.5, "cores": [0], "memory_bytes": 256_000_000, "swap_bytes": 0}


def limited(throttled, kills=0):
    effect = {"periods": 48, "throttled_periods": throttled, "throttled_s": 1.0, "oom_kills": kills}
    return {"limits": {"asked": ASKED, "set": {}, "affinity": None, "effect": effect}}


def example(manifests, *, threads=4):
    results = results_of({("a", 0): (1.0, 0.9, 1.1)}, runs=2)
    used = {"run_id": f"{cell_id('a', 0)}/1", "cell": cell_id("a", 0), "node": "broker/0", "phase": "measure"}
    rows = () if threads is None else ({**used, "threads_max": threads, "open_files_max": 1200},)
    return replace(results, manifests=manifests, resources=rows)


def test_the_worst_run_of_a_limited_cell_is_shown_and_told():
    run = cell_id("a", 0)
    results = example({f"{run}/1": limited(3), f"{run}/2": limited(34, kills=1)})
    (((broker, *limits, threads, files),),) = nodes(results, groups(results)).blocks

    assert broker.text == "a"
    assert [entry.text for entry in limits] == ["0.5 CPU, core 0, 256 MB, no swap", "34 of 48", "1"]
    assert (threads.text, files.text) == ("4", "1,200")
    assert held_back(results) == [
        f"{run}/1: the broker was out of CPU time in 3 of 48 periods of 100 ms.",
        f"{run}/2: the broker was out of CPU time in 34 of 48 periods of 100 ms.",
        f"{run}/2: the kernel killed 1 of the broker's processes for memory.",
    ]


def test_without_limits_there_are_no_columns_for_them():
    results = example({})
    table = nodes(results, groups(results))

    assert [column.title for column in table.columns][-2:] == ["Threads", "Open files"]
    assert "Limits" not in [column.title for column in table.columns]
    assert held_back(results) == []


def test_results_of_before_threads_were_sampled_have_no_table():
    results = example({}, threads=None)

    assert nodes(results, groups(results)).row_count == 0


def test_a_limit_of_swap_is_said_beside_no_swap():
    assert limits_text({"memory_bytes": 1 << 30, "swap_bytes": 64_000_000}) == "1 GiB, 64 MB of swap"
    assert limits_text(dict.fromkeys(ASKED)) == ""
