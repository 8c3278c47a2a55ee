"""Searches whose clients come and go, as whole runs through Mosquitto: every trial is that load, and all is counted.

A busy machine may fail any trial, so no rate is asserted; that every message of every trial came is.
"""

import math
from collections import Counter

import pyarrow.dataset as ds
import pytest
from secured_rig import over

from brokerlab.brokers.base import Missing
from brokerlab.brokers.registry import driver
from brokerlab.lab.run import make_run
from brokerlab.record.directory import RunDirectory
from brokerlab.study.plan import make_plan
from brokerlab.study.values import (
    Arrivals,
    Behaviour,
    BrokerChoice,
    ClientLife,
    Deploy,
    Factor,
    Goals,
    Phases,
    Qos,
    Scenario,
    Schedule,
    SessionKind,
    Study,
    System,
    Transport,
    Who,
    Workload,
)
from open_guards import OPEN

pytestmark = pytest.mark.brokers

TERMS = Schedule(Arrivals.SEARCH, p99_ms=60_000.0, from_per_s=20.0, to_per_s=25.0, precision_percent=50.0, trial_s=0.4)
STORM = ClientLife(Behaviour.STORM, every_s=0.15, who=Who.ALL, session=SessionKind.PERSISTENT)


class Nobody:
    def phase_started(self, name, seconds):
        """Nobody watches a test."""


def due(rate_per_s):
    """Messages of a trial: the second publisher is half an interval later than the first."""
    return sum(math.ceil(rate_per_s * TERMS.trial_s - shift) for shift in (0, 0.5))


@pytest.mark.parametrize(
    ("life", "transport", "qos"),
    [
        (ClientLife(Behaviour.PER_MESSAGE), Transport.TCP, 0),
        (ClientLife(Behaviour.CHURN, lifetime_s=0.1), Transport.TLS, 2),
        (STORM, Transport.WSS, 1),
    ],
    ids=["per-message", "churn", "storm"],
)
def test_search_with_clients_that_come_and_go(tmp_path, life, transport, qos):
    if isinstance(found := driver("mosquitto").find(), Missing):
        pytest.skip(found.reason)
    workload = over(Workload(2, 1, schedule=TERMS, qos=Qos(qos), clients=life), transport)
    study = Study(
        "search",
        Goals("How much does it carry?"),
        System((BrokerChoice("m", "mosquitto"),)),
        ("capacity",),
        Scenario(workload, (Factor("broker", ("m",)),)),
        deploy=Deploy(repetitions=1, phases=Phases(warmup_s=0, measure_s=0.4, drain_s=20)),
        analysis=OPEN,
    )
    run = RunDirectory(tmp_path / "run")

    make_run(make_plan(study, missing={}).runs[0], study, run, watcher=Nobody())

    manifest, rows = run.manifest(), lambda kind: ds.dataset(run.raw(kind), format="parquet").to_table().to_pylist()
    assert manifest["verdict"] == {"value": "valid", "reasons": []}
    trials = manifest["search"]["trials"]
    assert trials
    assert all(each["published"] + each["given_up"] == due(each["rate_per_s"]) for each in trials)
    assert all(each["arrivals"] >= each["expected"] == each["published"] for each in trials)
    assert all(each["unacknowledged"] == 0 for each in trials)
    published = sorted((row["publisher"], row["seq"]) for row in rows("publications"))
    assert len(published) == sum(each["published"] for each in trials)
    each = [sum(publisher == number for publisher, _ in published) for number in (0, 1)]
    assert published == [(number, seq) for number in (0, 1) for seq in range(each[number])]
    delivered = [(row["publisher"], row["seq"]) for row in rows("deliveries")]
    assert set(delivered) == set(published)
    assert len(delivered) == len(published) or life is STORM  # which repeats what was not acknowledged
    events = Counter(row["event"] for row in rows("sessions") if row["node"].startswith("publishers"))
    ended = events["dropped" if life is STORM else "disconnect"]
    assert ended >= (len(published) if life.behaviour is Behaviour.PER_MESSAGE else 2 * len(trials))
