"""What became of flows on real sockets: each outcome of paper 003, made on purpose by the scripted broker.

Every script is so coarse that a busy machine does not hide it. The numbers of table `jitter` are those of the raw rows.
"""

import numpy as np
import pyarrow.parquet as pq
import pytest

from brokerlab.pipeline.tables import read_table
from brokerlab.study.plan import make_plan
from brokerlab.study.values import (
    BrokerChoice,
    Deploy,
    Factor,
    Goals,
    Phases,
    Scenario,
    Schedule,
    Study,
    System,
    Workload,
)
from open_guards import OPEN

pytestmark = pytest.mark.e2e

RATE_PER_S, APART_MS = 25, 40
STILL_MS = 800  # from message 41 on; after it all that waited comes at once
SCRIPTS = {
    # Every other message takes 60 ms: uneven, but as uneven at the end as at the beginning.
    "even": {"delay_ms": {str(n): 60.0 for n in range(2, 101, 2)}},
    "lossy": {"drop": [20]},
    # A fifth of the 100 messages waits, fewer than a quarter, so that quartiles know nothing of it.
    "still": {"delay_ms": {str(41 + k): float(STILL_MS - APART_MS * k) for k in range(STILL_MS // APART_MS)}},
    # Takes twice as long for a message as there is between two.
    "slow": {"service_ms": 2 * APART_MS},
    "closing": {"cut": {"10": 5}},
}
SECONDS = {"even": 2, "lossy": 1, "still": 4, "slow": 1, "closing": 1}
CELLS = {name: f"broker-{name}-flow.qos-0" for name in SCRIPTS}


def runs_of(name):
    study = Study(
        name="outcomes",
        goals=Goals("What became of each flow?"),
        system=System((BrokerChoice(f"{name}-flow", "scripted", options=SCRIPTS[name]),)),
        metrics=("latency", "delivery"),
        scenario=Scenario(
            Workload(schedule=Schedule(rate_per_s=RATE_PER_S)),
            (Factor("broker", (f"{name}-flow",)), Factor("qos", (0,))),
        ),
        deploy=Deploy(repetitions=1, phases=Phases(warmup_s=0, measure_s=SECONDS[name], drain_s=3)),
        analysis=OPEN,
    )
    return [(study, run) for run in make_plan(study, missing={}).runs]


def planned():
    return [pair for name in SCRIPTS for pair in runs_of(name)]


@pytest.fixture(scope="module")
def flows(analysed):
    rows = read_table(analysed, "jitter").to_pylist()
    return {name: next(row for row in rows if row["cell"] == cell) for name, cell in CELLS.items()}


@pytest.mark.parametrize(
    ("name", "outcome"),
    [
        ("even", "ok"),
        ("lossy", "lost data"),
        ("still", "temporary block"),
        ("slow", "growing"),
        ("closing", "collapse"),
    ],
)
def test_what_the_broker_did_is_the_outcome_of_its_flow(flows, name, outcome):
    assert flows[name]["outcome"] == outcome


def test_only_what_was_dropped_is_lost(flows):
    lost = {name: flows[name]["lost"] for name in SCRIPTS if name != "closing"}

    assert lost == {"even": 0, "lossy": 1, "still": 0, "slow": 0}


def test_latency_grows_by_what_the_broker_takes_longer_than_the_load(flows):
    """Every message waits for one more than the one before it: 40 ms, whatever else the machine does."""
    slow = flows["slow"]

    assert slow["monotone_growth"] is True
    assert slow["growth_p"] < 1e-6
    assert slow["growth_ms_per_message"] == pytest.approx(APART_MS, rel=0.25)
    assert flows["even"]["monotone_growth"] is False


def test_a_flow_that_stood_still_did_so_once(flows):
    assert flows["still"]["blocks"] >= 1
    assert flows["even"]["blocks"] == 0


@pytest.mark.parametrize("name", [name for name in SCRIPTS if name != "closing"])
def test_the_rhythm_is_that_of_the_arrivals(analysed, flows, name):
    (file,) = analysed.run(f"{CELLS[name]}/1").files("deliveries")
    raw = pq.read_table(file)
    received, intended, resolution = (
        raw[column].to_numpy() for column in ("received_ns", "intended_ns", "resolution_ns")
    )
    apart_ms = np.diff(received) / 1e6
    jitter = 0.0
    for change in np.abs(np.diff(received - intended)) / 1e6:
        jitter += (change - jitter) / 16

    assert flows[name]["n"] == raw.num_rows
    assert flows[name]["interarrival_mean_ms"] == pytest.approx(apart_ms.mean())
    assert flows[name]["interarrival_sd_ms"] == pytest.approx(apart_ms.std(ddof=1))
    assert flows[name]["rfc3550_ms"] == pytest.approx(jitter)
    unknown_ms = np.minimum(resolution, received - intended) / 1e6  # nothing came before it was due
    assert flows[name]["resolution_mean_ms"] == pytest.approx(unknown_ms.mean())
