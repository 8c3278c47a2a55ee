"""The presets of papers 001, 003 and 004: their parameters are those that are printed."""

import pytest
from test_study_presets import DRIVERS

from brokerlab.presets import preset_path
from brokerlab.published.library import published
from brokerlab.study.ensemble_values import BridgePer, BridgeWays, Join
from brokerlab.study.file import read_study
from brokerlab.study.plan import make_plan
from brokerlab.study.replay import records_of
from brokerlab.study.values import Behaviour, Roles, Start


def study_of(preset):
    study = read_study(preset_path(preset), drivers=DRIVERS)
    return study, make_plan(study, missing={}).cells


def levels(cells, factor):
    return {dict(cell.levels)[factor] for cell in cells}


def printed_001():
    values = {}
    for row in published("001/table3").rows:
        values.setdefault(row["parameter"], []).extend(row["value"].split(","))
    return values


def test_border_full_has_all_parameters_of_table_3():
    """B-01, B-10, B-13, B-14; the port is 1883 in a namespace of the node's own (networks/test_ensemble_runs.py)."""
    study, cells = study_of("border-full")
    workload, deploy, limits = study.scenario.workload, study.deploy, study.system.limits
    topology = study.scenario.topology

    ours = {
        "number_of_brokers": [study.system.ensemble.nodes],
        "rtt_router_router": sorted(levels(cells, "rtt")),
        "rtt_switch_router": [topology.router_switch.rtt_ms],
        "rtt_broker_switch": [topology.switch_broker.rtt_ms],
        "broker_ram_upper_limit": [limits.memory_bytes / 1e9],
        "cpus_per_broker": [limits.cpus],
        "published_messages": [deploy.phases.measure_s * min(levels(cells, "rate"))],
        "subscribers": [workload.subscribers],
        "publishers": [workload.publishers],
        "publish_rate": [min(levels(cells, "rate"))],
        "message_size": [workload.payload_bytes],
        "repetitions": [deploy.repetitions],
        "qos": sorted(levels(cells, "qos")),
    }
    printed = printed_001()
    assert {name: list(map(float, printed[name])) for name in ours} == ours
    assert printed["topic"] == [workload.topics.publish]
    assert set(printed) == {*ours, "topic", "broker_port"}
    assert limits.swap_bytes == 1e9
    assert levels(cells, "locality") == {0.0, 50.0, 100.0}
    assert levels(cells, "rate") == {1.0, 10.0, 100.0}
    assert levels(cells, "link_rate") == {0.0, 1e6}  # requirements 0.8: what the paper's program held its links to


@pytest.mark.parametrize(("preset", "join"), [("border", Join.CLUSTER), ("border-bridges", Join.BRIDGE)])
def test_border_has_three_ensembles_and_every_factor_of_the_paper(preset, join):
    study, cells = study_of(preset)

    assert {cell.ensemble.join for cell in cells} == {join}
    assert len(levels(cells, "broker")) == 3
    assert [levels(cells, name) for name in ("qos", "rtt", "locality")] == [{0, 1, 2}, {5.0, 50.0}, {0.0, 50.0, 100.0}]
    assert study.deploy.phases.idle_s > 0
    assert study.present.beside == ("001/intext",)


def test_border_rates_has_the_paper_s_rates_with_and_without_its_slow_links():
    study, cells = study_of("border-rates")

    assert (levels(cells, "rate"), levels(cells, "link_rate")) == ({1.0, 10.0, 100.0}, {0.0, 1e6})
    assert (study.scenario.workload.qos, study.scenario.workload.placement.locality) == (1, 50.0)
    assert study.deploy.repetitions > 1  # so that placements differ


@pytest.mark.parametrize(
    ("preset", "messages", "rates"), [("cloud", 20, {10.0}), ("cloud-full", 100, {10.0, 2.0, 1.0})]
)
def test_cloud_has_three_tests_at_the_paper_s_intervals_and_an_a_a_pair(preset, messages, rates):
    """C-02 to C-04, F-21, F-25."""
    study, cells = study_of(preset)
    records = records_of(study.scenario.workload.payload.replay)

    assert records.count == messages
    assert levels(cells, "role") == {Roles.ONE_WAY, Roles.ECHO, Roles.LOOP}
    assert (levels(cells, "rate"), levels(cells, "qos"), levels(cells, "inflight")) == (rates, {0, 1, 2}, {1, 20})
    assert study.scenario.workload.start is Start.CONTROL
    assert [broker.driver for broker in study.system.brokers].count("mosquitto") == 2
    assert study.present.beside == ("003/table2", "003/table3", "003/table4")


def test_cloud_contact_has_a_day_of_readings_in_one_contact():
    """F-12."""
    study, cells = study_of("cloud-contact")
    workload = study.scenario.workload

    assert records_of(workload.payload.replay).count == 24 * 60
    assert workload.schedule.rate_per_s * workload.schedule.store_s == pytest.approx(24 * 60)
    assert workload.schedule.within_s <= study.deploy.phases.measure_s
    assert len(levels(cells, "inflight")) > 1


@pytest.mark.parametrize(("preset", "messages", "repetitions"), [("bridges", 64, 1), ("bridges-full", 4000, 10)])
def test_bridges_has_the_paper_s_load_and_both_ways_to_close(preset, messages, repetitions):
    """X-03 to X-07, X-09, F-17."""
    study, cells = study_of(preset)
    workload, bridging = study.scenario.workload, study.system.ensemble.bridging

    assert workload.payload.each == (125_528, 35_703, 1_517, 1_593)
    assert workload.publishers * workload.schedule.rate_per_s * study.deploy.phases.measure_s == messages
    assert study.deploy.repetitions == repetitions
    assert (workload.protocol, workload.transport, workload.permissions) == ("5.0", "tls", True)
    assert workload.mqtt5.metadata
    assert bridging.ways is BridgeWays.INWARD
    assert bridging.limits.cpus == 1  # of all bridges together, however many there are
    assert levels(cells, "bridge_per") == {BridgePer.PAIR, BridgePer.PUBLISHER}
    assert levels(cells, "length") == {15, 29}
    assert levels(cells, "behaviour") >= {Behaviour.PER_MESSAGE, Behaviour.PER_MESSAGE_ABRUPT, Behaviour.PERSISTENT}
    assert set(study.present.beside) == {"004/table4", "004/fig7", "004/fig8", "004/fig9"}
