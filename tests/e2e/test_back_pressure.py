"""What waits because the broker stops reading is the broker's time: later messages are late, the generator is not."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from side_by_side import make_planned

from brokerlab.record.directory import StudyDirectory
from brokerlab.study.plan import make_plan
from brokerlab.study.values import (
    BrokerChoice,
    Deploy,
    Factor,
    Goals,
    Phases,
    Qos,
    Scenario,
    Schedule,
    Study,
    System,
    Workload,
)
from open_guards import OPEN

pytestmark = pytest.mark.e2e

RATE_PER_S, STALL_MS = 50, 600
STALLS = {"stalling": STALL_MS, "stuck": 60_000}
LONG_BYTES = 1 << 20  # some five are in the buffers of a connection before its socket is full


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    study = Study(
        name="pressed",
        goals=Goals("Whose is the wait?"),
        system=System(
            tuple(BrokerChoice(name, "scripted", options={"stall_ms": {"20": ms}}) for name, ms in STALLS.items())
        ),
        metrics=("latency",),
        scenario=Scenario(
            Workload(schedule=Schedule(rate_per_s=RATE_PER_S), payload_bytes=LONG_BYTES),
            (Factor("broker", tuple(STALLS)), Factor("qos", (0, 1, 2))),
        ),
        deploy=Deploy(repetitions=1, phases=Phases(warmup_s=0, measure_s=1, drain_s=3)),
        analysis=OPEN,
    )
    results = StudyDirectory(tmp_path_factory.mktemp("pressed"))
    make_planned([(study, run) for run in make_plan(study, missing={}).runs], results)
    levels = [run.manifest()["run"]["levels"] for run in results.runs()]
    return {(each["broker"], each["qos"]): run for each, run in zip(levels, results.runs(), strict=True)}


@pytest.mark.parametrize("qos", Qos)
def test_the_stall_is_in_the_latency_and_not_in_the_schedule_lag(runs, qos):
    run = runs["stalling", qos]
    manifest = run.manifest()
    sent = pa.concat_tables(pq.read_table(file) for file in run.files("publications")).sort_by("seq")
    late_ms = (sent["sent_ns"].to_numpy() - sent["intended_ns"].to_numpy()) / 1e6

    assert manifest["verdict"]["value"] == "valid", manifest["verdict"]["reasons"]
    assert len(late_ms) == RATE_PER_S
    assert np.count_nonzero(late_ms > STALL_MS / 4) > 5
    assert manifest["meter"]["schedule_lag_ms"]["max"] < late_ms.max() / 2


@pytest.mark.parametrize("qos", Qos)
def test_what_the_broker_never_took_is_its_collapse_and_not_the_generators_limit(runs, qos):
    manifest = runs["stuck", qos].manifest()
    verdict, meter = manifest["verdict"], manifest["meter"]

    assert verdict["value"] == "collapsed"
    assert verdict["reasons"] == [
        f"the broker did not take {meter['untaken']} messages that were due by the end of drain: sockets were full, "
        "as many were in flight as may be, or connections were missing"
    ]
    assert meter["untaken"] == meter["unsent"] > 5
