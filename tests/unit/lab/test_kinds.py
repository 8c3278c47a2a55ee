"""Loads that no ceiling is measured of have none: their manifests say why, and nothing is measured for them."""

import pytest

from brokerlab.lab.calibration import missing_setups, run_section, store_calibration, todays_versions
from brokerlab.lab.kinds import PUBLISHING, RECEIVING, unmeasured
from brokerlab.lab.setups import setup_of
from brokerlab.study.mqtt5_values import Mqtt5
from brokerlab.study.pause_values import Pause
from brokerlab.study.plan import Cell
from brokerlab.study.values import (
    Arrivals,
    Behaviour,
    BrokerChoice,
    ClientLife,
    Content,
    Echo,
    Payload,
    Qos,
    Roles,
    Schedule,
    SessionKind,
    Topics,
    Workload,
)

pytestmark = pytest.mark.unit
BOTH = {PUBLISHING, RECEIVING}
LEVEL = {
    "published_per_s": 4.0,
    "published_per_s_per_core": 4.0,
    "published_recorded_per_s": 3.0,
    "published_recorded_per_s_per_core": 3.0,
    "received_per_s": 2.0,
    "received_per_s_per_core": 2.0,
    "cpu_us_per_message": {"published": 1.0, "published_recorded": 2.0, "received": 3.0},
    "schedule_error_ms": {"p99": 0.1},
    "receive_resolution_ms": {"p99": 0.2},
}


def cell(**load):
    return Cell("c", (), BrokerChoice("b", "embedded"), Workload(**load))


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.mark.parametrize(
    "load",
    [
        {},
        {"schedule": Schedule(Arrivals.BURST)},
        {"schedule": Schedule(inflight=1)},  # at QoS 0 nothing is
        {"payload_bytes": 40, "payload": Payload(Content.JSON, '{"seq": {seq}}')},
        {"payload_bytes": 16, "payload": Payload(each=(16, 16))},
        {"clients": ClientLife(behaviour=Behaviour.CHURN)},
        {"pause": Pause(for_s=0.0)},
        {"clients": ClientLife(behaviour=Behaviour.PER_MESSAGE_ABRUPT)},
        {"clients": ClientLife(session=SessionKind.PERSISTENT)},
        {"topics": Topics(count=2)},
        {"schedule": Schedule(Arrivals.WINDOW, inflight=1), "qos": Qos(1)},
        {"schedule": Schedule(Arrivals.SATURATE)},
        {"schedule": Schedule(inflight=1), "qos": Qos(1)},
        {"payload": Payload(each=(64, 65))},
        {"payload": Payload(mix=((64, 50.0), (65, 50.0)))},
        {"payload_bytes": 15},
        {"role": Roles.ECHO, "echo": Echo(qos=Qos(1))},
        {"payload_bytes": 0, "publishers": 2},
        {"role": Roles.LOOP},
    ],
)
def test_these_kinds_of_load_have_all_ceilings(load):
    assert unmeasured(cell(**load)) == {}


@pytest.mark.parametrize(
    ("load", "lacking", "why"),
    [
        ({"pause": Pause()}, {RECEIVING}, "that pause"),
        ({"role": Roles.LOOP, "mqtt5": Mqtt5(topic_alias=True)}, BOTH, "their own messages"),
        ({"payload_bytes": 15, "publishers": 2, "topics": Topics("all")}, BOTH, "topics that publishers share"),
    ],
)
def test_other_kinds_lack_what_is_not_measured_of_them(load, lacking, why):
    found = unmeasured(cell(**load))

    assert found.keys() == lacking
    assert all(why in reason for reason in found.values())


def test_a_manifest_has_no_ceiling_of_another_kind():
    store_calibration({"format": 1, "versions": dict(todays_versions()), "qos0": LEVEL, "qos1": LEVEL})
    usual, pausing = cell(), cell(pause=Pause())
    assert setup_of(usual) == setup_of(pausing)

    assert run_section(usual, load_on="local")["value"]["qos0"] == LEVEL
    section = run_section(pausing, load_on="local")

    assert section["reason"] is None
    assert section["without"] == {RECEIVING: "subscribers that pause are not calibrated"}
    assert "qos1" not in section["value"]
    level = section["value"]["qos0"]
    assert {name for name, value in level.items() if value is None} == {
        *(name for name in LEVEL if name.startswith("received")), "receive_resolution_ms",
    }  # fmt: skip
    assert level["cpu_us_per_message"] == {"published": 1.0, "published_recorded": 2.0, "received": None}
    assert (level["published_per_s"], level["schedule_error_ms"]) == (4.0, {"p99": 0.1})


def test_a_load_that_nothing_is_measured_of_is_not_calibrated_and_says_why():
    store_calibration({"format": 1, "versions": dict(todays_versions()), "qos0": LEVEL})
    loops = cell(role=Roles.LOOP, protocol="5.0", mqtt5=Mqtt5(topic_alias=True))

    assert run_section(loops, load_on="local") == {
        "value": None,
        "reason": "clients that hear their own messages are not calibrated with topic aliases",
    }
    assert missing_setups([loops]) == {}
