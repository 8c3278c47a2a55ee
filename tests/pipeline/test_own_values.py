"""Our numbers under the papers' names: levels, traffic by kind, claims of an analysed study (B-11, B-12, B-21)."""

import pytest
from pipeline_runs import RunBuilder, arrival, new_study, publication

from brokerlab.pipeline.claims import write_claims
from brokerlab.pipeline.jobs import analyze
from brokerlab.pipeline.own_values import own_values, traffic_kinds, varying
from brokerlab.pipeline.tables import read_table
from brokerlab.published.claims import read_claims

pytestmark = pytest.mark.pipeline
LINK = {"there": {"delay_ms": 2.5}, "back": {"delay_ms": 2.5}}


def phase(name, seconds, bits_per_s, *, idle=1000.0):
    above = None if name == "idle" else bits_per_s - idle
    return {"phase": name, "seconds": seconds, "bits_per_s": bits_per_s, "above_idle_bits_per_s": above}


def test_traffic_is_told_by_kind_over_the_whole_time():
    """Ten seconds: 1 kbit/s idle all along; 9 kbit more in a second of subscribing, 20 in the four of messages."""
    rows = [phase("idle", 4, 1000), phase("connect", 1, 1000), phase("subscribe", 1, 10_000), phase("measure", 4, 6000)]

    assert traffic_kinds(rows) == {"control": 1.0, "subscriptions": 0.9, "publications": 2.0}


def test_traffic_without_an_idle_phase_cannot_be_told_by_kind():
    assert traffic_kinds([phase("measure", 4, 6000)]) is None


def test_a_kind_is_never_less_than_nothing():
    rows = [phase("idle", 1, 5000), phase("measure", 1, 1000, idle=5000.0)]

    assert traffic_kinds(rows) == {"control": 5.0, "subscriptions": 0.0, "publications": 0.0}


def write_run(study, *, locality, delay_ms, order):
    """Ten messages at QoS 0 through two bridged nodes, 5 ms there and back apart."""
    sent = [publication(seq, 2000 + 100 * seq, acked=False, qos=0) for seq in range(10)]
    builder = RunBuilder(cell=f"broker-amqtt.locality-{locality:g}percent", order=order)
    sections = builder.sections()
    sections["run"]["levels"] = {"broker": "amqtt", "locality": locality}
    more = {
        "run": sections["run"],
        "broker": {**sections["broker"], "join": "bridge"},
        "placement": {"local_percent": locality},
        "network": {"topology": {"between": LINK}},
    }
    RunBuilder(cell=builder.cell, order=order, more=more).write(
        study,
        publications={"publishers-0": sent},
        deliveries={"subscribers-0": [arrival(message, delay_ms) for message in sent]},
    )


@pytest.fixture(scope="module")
def near_and_far(spark, tmp_path_factory):
    study = new_study(tmp_path_factory.mktemp("ours") / "tiny")
    write_run(study, locality=100.0, delay_ms=1, order=1)
    write_run(study, locality=0.0, delay_ms=7, order=2)
    analyze(spark, study)
    return study


def test_values_carry_the_levels_of_their_cells_also_those_that_do_not_vary(near_and_far):
    values = own_values([near_and_far])
    means = {dict(value.levels)["locality"]: value for value in values if value.metric == "latency_mean"}

    assert {level: value.value for level, value in means.items()} == {"100 %": 1.0, "0 %": 7.0}
    assert dict(means["0 %"].levels).items() >= {"join": "bridge", "rtt": "5 ms", "qos": "0", "broker": "amqtt"}.items()
    assert varying(values) == ("locality",)
    assert {value.value for value in values if value.metric == "collapsed"} == {0.0}


def test_claims_are_held_against_an_analysed_study(spark, near_and_far):
    chosen = [claim for claim in read_claims() if claim.id in ("001-bridges-near", "001-locality", "001-control")]
    write_claims(spark, chosen, ours=[near_and_far], to=near_and_far)

    rows = {row["claim"]: row for row in read_table(near_and_far, "claims").to_pylist()}

    assert rows["001-bridges-near"]["verdict"] == "holds"
    assert rows["001-bridges-near"]["numbers"] == "amqtt, QoS 0: 100 % 1, 0 % 7"
    assert rows["001-bridges-near"]["held_against"] == "tiny"
    assert {rows[name]["verdict"] for name in ("001-locality", "001-control")} == {"undecided"}  # of clusters
