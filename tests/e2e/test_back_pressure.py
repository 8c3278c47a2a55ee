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
LONG_BYTES = 1 << 20  # some five are in the buffers of a connection before its socket is full


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    study = Study(
        name="pressed",
        goals=Goals("Whose is the wait?"),
        system=System((BrokerChoice("stalling", "scripted", options={"stall_ms": {"20": STALL_MS}}),)),
        metrics=("latency",),
        scenario=Scenario(
            Workload(schedule=Schedule(rate_per_s=RATE_PER_S), payload_bytes=LONG_BYTES),
            (Factor("broker", ("stalling",)), Factor("qos", (0, 1, 2))),
        ),
        deploy=Deploy(repetitions=1, phases=Phases(warmup_s=0, measure_s=1, drain_s=5)),
        analysis=OPEN,
    )
    results = StudyDirectory(tmp_path_factory.mktemp("pressed"))
    make_planned([(study, run) for run in make_plan(study, missing={}).runs], results)
    return {run.manifest()["run"]["levels"]["qos"]: run for run in results.runs()}


@pytest.mark.parametrize("qos", Qos)
def test_the_stall_is_in_the_latency_and_not_in_the_schedule_lag(runs, qos):
    manifest = runs[qos].manifest()
    sent = pa.concat_tables(pq.read_table(file) for file in runs[qos].files("publications")).sort_by("seq")
    late_ms = (sent["sent_ns"].to_numpy() - sent["intended_ns"].to_numpy()) / 1e6

    assert manifest["verdict"]["value"] == "valid", manifest["verdict"]["reasons"]
    assert len(late_ms) == RATE_PER_S
    assert np.count_nonzero(late_ms > STALL_MS / 4) > 5
    assert manifest["meter"]["schedule_lag_ms"]["max"] < late_ms.max() / 2
