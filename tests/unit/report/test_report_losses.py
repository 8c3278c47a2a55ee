from dataclasses import replace

import pytest
from report_values import delivery_row, results_of

from brokerlab.report.cells import groups
from brokerlab.report.losses import losses, losses_summary

pytestmark = pytest.mark.unit
COUNTED = {"published": 20_000, "acknowledged": 20_000}


def results(*, pause):
    """Three brokers; the first has two names: as shipped it lost more in one run than in the other."""
    every = results_of({(name, 1): (1.0, 0.9, 1.1) for name in ("a", "a-lossless", "b")}, runs=2)
    presets = {"a": "stock", "a-lossless": "lossless", "b": "stock"}
    lost = {("a", 1): 18_000, ("a", 2): 19_000}
    rows = [run | {"driver": run["broker"][0], "version": "1.0"} for run in every.runs]
    ledger = [
        delivery_row(name, 1, number, "kept")
        | COUNTED
        | {"delivered": 20_000 - gone, "lost": gone, "acknowledged_lost": gone}
        for name in presets
        for number in (1, 2)
        for gone in (lost.get((name, number), 0),)
    ]
    manifests = {
        run["run_id"]: {"broker": {"preset": presets[run["broker"]]}, "workload": {"pause": pause}} for run in rows
    }
    return replace(every, runs=rows, delivery=ledger, manifests=manifests)


def test_losses_stand_beside_each_other_by_driver():
    paused = results(pause={"after_s": 0.0, "for_s": 4.0})
    shown = losses(paused, groups(paused))

    texts = [[[entry.text for entry in row] for row in block] for block in shown.blocks]
    assert texts == [
        [
            ["a", "stock", "1", "20,000", "20,000", "1,000 to 2,000", "18,000 to 19,000", "18,000 to 19,000", "valid"],
            ["a-lossless", "lossless", "1", "20,000", "20,000", "20,000", "0", "0", "valid"],
        ],
        [["b", "stock", "1", "20,000", "20,000", "20,000", "0", "0", "valid"]],
    ]
    assert losses_summary(paused, groups(paused)) == (
        "With the preset stock, acknowledged messages were lost by a and kept by b. "
        "With the preset lossless, acknowledged messages were lost by none and kept by a-lossless."
    )


def test_who_was_not_through_is_neither_lossy_nor_clean():
    paused = results(pause={"after_s": 0.0, "for_s": 4.0})
    cut = [row | ({"acknowledged": 19_999} if row["cell"].startswith("broker-b") else {}) for row in paused.delivery]
    paused = replace(paused, delivery=cut)

    assert losses_summary(paused, groups(paused)) == (
        "With the preset stock, acknowledged messages were lost by a. "
        "With the preset lossless, acknowledged messages were lost by none and kept by a-lossless. "
        "Not through when the run ended, so that lost and late cannot be told apart: b."
    )


@pytest.mark.parametrize("pause", [None, {"after_s": 0.0, "for_s": 0.0}])
def test_without_a_pause_there_is_no_such_table(pause):
    steady = results(pause=pause)

    assert losses(steady, groups(steady)).row_count == 0
