"""Devices that answer, clients that hear themselves, a probe beside a load: on a broker that lies, and a real one."""

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from brokerlab.pipeline.tables import read_table
from brokerlab.study.plan import make_plan
from brokerlab.study.values import (
    Arrivals,
    BrokerChoice,
    Deploy,
    Factor,
    Goals,
    Phases,
    Probe,
    Scenario,
    Schedule,
    Study,
    System,
    Topics,
    Workload,
)
from open_guards import OPEN

pytestmark = pytest.mark.e2e

MESSAGES = 25
# Of 25 messages the first is dropped on its way there, so 24 are answered: the 49th to arrive is the last answer.
LIES = {"drop": [1, 2 * MESSAGES - 1]}


def runs_of(workload, brokers, *variables, measure_s):
    names = tuple(broker.name for broker in brokers)
    study = Study(
        name="roles",
        goals=Goals("Is every message followed there and back?"),
        system=System(brokers),
        metrics=("latency", "delivery"),
        scenario=Scenario(workload, (Factor("broker", names), *variables)),
        deploy=Deploy(repetitions=1, phases=Phases(warmup_s=0, measure_s=measure_s, drain_s=3)),
        analysis=OPEN,
    )
    return [(study, run) for run in make_plan(study, missing={}).runs]


def planned():
    """One client at 50/s for half a second, which is 25 messages, in both roles; and a load that has a probe.

    The load's subscriber hears everything, also the probe.
    """
    brokers = (BrokerChoice("liar", "scripted", options=LIES), BrokerChoice("mosquitto", "mosquitto"))
    workload = Workload(schedule=Schedule(rate_per_s=2 * MESSAGES))
    factors = (Factor("role", ("echo", "loop")), Factor("qos", (2,)))
    saturating = Workload(
        topics=Topics(subscribe="#"), probe=Probe(every_s=0.1), schedule=Schedule(Arrivals.SATURATE, window=50)
    )
    return [
        *runs_of(workload, brokers, *factors, measure_s=0.5),
        *runs_of(saturating, (BrokerChoice("mosquitto", "mosquitto"),), measure_s=0.6),
    ]


@pytest.fixture(scope="module")
def results(analysed):
    return analysed


def row(results, table, **keys):
    rows = [r for r in read_table(results, table).to_pylist() if all(r[key] == value for key, value in keys.items())]
    assert len(rows) == 1
    return rows[0]


def ledger(results, cell):
    found = row(results, "delivery", cell=cell)
    names = ("published", "delivered", "lost", "lost_there", "lost_back", "duplicated", "unexpected", "verdict")
    return tuple(found[name] for name in names)


def test_losses_there_and_back_are_told_apart(results):
    """An answer at QoS 0 may be lost, what was acknowledged at QoS 2 on its way to a device may not."""
    assert ledger(results, "broker-liar.role-echo.qos-2") == (MESSAGES, MESSAGES - 2, 2, 1, 1, 0, 0, "broken")


def test_a_loop_hears_what_the_broker_lets_through(results):
    assert ledger(results, "broker-liar.role-loop.qos-2") == (
        MESSAGES, MESSAGES - 1, 1, None, None, 0, 0, "broken",
    )  # fmt: skip


@pytest.mark.parametrize(("role", "asked"), [("echo", 0), ("loop", 2)])
def test_a_broker_that_grants_what_is_asked_is_not_accused(results, role, asked):
    """Answers are asked for with echo.qos, which is 0, and not with the QoS of the messages."""
    found = row(results, "delivery", cell=f"broker-mosquitto.role-{role}.qos-2")

    assert (found["qos_asked"], found["qos_granted"]) == (asked, asked)


@pytest.mark.parametrize("role", ["echo", "loop"])
def test_nothing_is_lost_on_a_real_broker(results, role):
    cell = f"broker-mosquitto.role-{role}.qos-2"
    there_and_back = (0, 0) if role == "echo" else (None, None)

    assert ledger(results, cell) == (MESSAGES, MESSAGES, 0, *there_and_back, 0, 0, "kept")
    assert results.run(f"{cell}/1").manifest()["verdict"] == {"value": "valid", "reasons": []}
    assert row(results, "latency", cell=cell, kind="intended", group="all")["n"] == MESSAGES


def test_a_loop_has_one_connection(results):
    sessions = pq.read_table(results.run("broker-mosquitto.role-loop.qos-2/1").files("sessions")[0]).to_pylist()

    assert [session["event"] for session in sessions if session["event"] in ("connack", "suback")] == [
        "connack", "suback",
    ]  # fmt: skip
    assert len({session["client"] for session in sessions}) == 1


def test_the_devices_own_time_is_measured_and_part_of_the_whole(results):
    cell = "broker-mosquitto.role-echo.qos-2"
    manifest = results.run(f"{cell}/1").manifest()
    whole, there, device = (
        row(results, "latency", cell=cell, kind=kind, group="all") for kind in ("intended", "there", "device")
    )

    assert there["n"] == device["n"] == MESSAGES
    assert 0 < device["mean_ms"] < whole["mean_ms"]
    assert there["mean_ms"] + device["mean_ms"] <= whole["mean_ms"]
    assert device["resolution_mean_ms"] == there["resolution_mean_ms"]  # from one and the same arrival
    assert manifest["meter"]["device_ms"]["max"] > 0
    assert "devices/0" in {worker["node"] for worker in manifest["meter"]["workers"]}


def test_a_device_answers_byte_for_byte(results):
    run = results.run("broker-mosquitto.role-echo.qos-2/1")
    sent, heard = (pq.read_table(run.files(kind)[0]) for kind in ("publications", "deliveries"))

    for column in ("publisher", "seq", "intended_ns", "payload_bytes"):
        assert sorted(heard[column].to_pylist()) == sorted(sent[column].to_pylist())
    assert pc.all(pc.greater(heard["received_ns"], heard["intended_ns"])).as_py()


def test_the_probe_is_a_group_of_its_own_and_none_of_the_load(results):
    cell = "broker-mosquitto"
    manifest = results.run(f"{cell}/1").manifest()
    load, probe = (row(results, "latency", cell=cell, kind="intended", group=group) for group in ("all", "probe"))
    ledger_ = row(results, "delivery", cell=cell)
    counters = {
        each["count"]: each["verdict"] for each in read_table(results, "counters").to_pylist() if each["cell"] == cell
    }

    assert probe["n"] == 6
    assert probe["max_ms"] > 0
    assert load["n"] > 100
    assert ledger_["unexpected"] == 0
    assert ledger_["delivered"] == ledger_["published"]
    assert manifest["besides"]["publications"] == 6
    assert manifest["verdict"]["value"] == "valid"
    assert (counters["received"], counters["received_bytes"]) == ("equal", "equal")
    assert counters["sent"] == "not comparable"  # the ledger of the load does not have what the probe got
