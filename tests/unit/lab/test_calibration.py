import json
import sys
import time

import pytest

from brokerlab.brokers.base import Node
from brokerlab.brokers.port import free_port
from brokerlab.brokers.process import BrokerProcess
from brokerlab.errors import RunError
from brokerlab.lab.calibrate import calibrate, require_equal
from brokerlab.lab.calibration import calibration_path, calibration_section, missing_setups, store_calibration
from brokerlab.lab.setups import USUAL, SetUp, setup_from, setup_of, setups_of
from brokerlab.study.ensemble_values import Ensemble
from brokerlab.study.plan import Cell
from brokerlab.study.values import BrokerChoice, Mqtt5, Payload, Qos, Transport, Workload

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_a_machine_without_calibration_says_how_to_get_one():
    assert calibration_section() == {
        "value": None,
        "reason": "this machine was never calibrated: brokerlab calibrate",
    }


def test_what_was_kept_is_found_again(cache):
    path = store_calibration({"format": 1, "qos0": {"published_per_s": 1.0}})

    assert path.is_relative_to(cache / "brokerlab")
    assert calibration_section() == {"value": {"format": 1, "qos0": {"published_per_s": 1.0}}, "reason": None}


def test_a_damaged_calibration_is_null_with_its_reason():
    store_calibration({"format": 1})
    calibration_path().write_text("{", encoding="utf-8")

    section = calibration_section()

    assert section["value"] is None
    assert "cannot be read" in section["reason"]


def test_each_setup_is_kept_beside_the_usual_one_and_replaces_its_like():
    for number, size in enumerate((1024, 64, 256, 1024)):
        store_calibration({"format": 1, "payload_bytes": size, "number": number})
    store_calibration({"format": 1, "payload_bytes": 64, "transport": "tls", "number": 4})

    assert calibration_section()["value"] == {"format": 1, "payload_bytes": 64, "number": 1}
    assert calibration_section(SetUp(256))["value"]["number"] == 2
    assert calibration_section(SetUp(1024))["value"]["number"] == 3
    assert calibration_section(SetUp(transport=Transport.TLS))["value"]["number"] == 4
    assert calibration_section(SetUp(transport=Transport.WSS)) == {
        "value": None,
        "reason": "the meter was not calibrated for 64 B over WSS, MQTT 3.1.1",
    }


def test_a_qos_that_is_measured_later_is_kept_beside_the_others():
    store_calibration({"format": 1, "qos0": {"a": 1}, "qos1": {"a": 1}})
    store_calibration({"format": 1, "qos1": {"a": 2}})

    assert calibration_section()["value"] == {"format": 1, "qos0": {"a": 1}, "qos1": {"a": 2}}
    assert calibration_section(qos=1)["reason"] is None
    assert calibration_section(qos=2)["reason"].endswith("for 64 B over TCP, MQTT 3.1.1 at QoS 2")


def cell(*, nodes=1, **load):
    return Cell("c", (), BrokerChoice("b", "embedded"), Workload(**load), ensemble=Ensemble(nodes=nodes))


@pytest.mark.parametrize(
    ("made", "setup"),
    [
        (cell(), USUAL),
        (cell(payload_bytes=4), SetUp(16)),
        (cell(payload_bytes=300, payload=Payload(mix=((100, 50.0), (300, 50.0)))), SetUp(300)),
        (cell(transport=Transport.WS, protocol="3.1"), SetUp(transport=Transport.WS, protocol="3.1")),
        (cell(publishers=11, subscribers=10), SetUp(publishers=100, subscribers=10)),
        (cell(publishers=11, nodes=2), SetUp(publishers=10)),
        (cell(publishers=70_000), SetUp(publishers=10_000)),
        (cell(mqtt5=Mqtt5(user_properties=3)), USUAL),
        (
            cell(protocol="5.0", mqtt5=Mqtt5(user_properties=3, session_expiry_s=9)),
            SetUp(protocol="5.0", mqtt5=Mqtt5(user_properties=3)),
        ),
    ],
)
def test_the_setup_of_a_cell_is_what_makes_its_messages_work(made, setup):
    assert setup_of(made) == setup
    assert setup_from(json.loads(json.dumps(setup.facts))) == setup


def test_what_cells_need_and_the_machine_was_not_calibrated_for_is_missing():
    cells = [cell(qos=Qos(qos), transport=each) for qos in (0, 2) for each in (Transport.TCP, Transport.TLS)]
    cells.append(cell(payload_bytes=17 << 20))
    store_calibration({"format": 1, "qos0": {}})

    encrypted, large = SetUp(transport=Transport.TLS), SetUp(17 << 20)
    assert setups_of(cells) == {USUAL: [0, 2], encrypted: [0, 2], large: [0]}
    assert missing_setups(cells) == {USUAL: [2], encrypted: [0, 2]}
    assert calibration_section(large, 0)["reason"] == "payloads over 16 MiB are not calibrated"


def test_a_setup_of_mqtt_5_over_wss_has_ceilings_too():
    """Aliases stand for topics, and receivers allow few messages in flight: counts agree if the null broker obeys."""
    mqtt5 = Mqtt5(user_properties=2, metadata=True, topic_alias=True, subscription_identifiers=True, receive_maximum=20)
    setup = SetUp(300, Transport.WSS, "5.0", publishers=10, subscribers=10, mqtt5=mqtt5)

    measured = calibrate(seconds=0.1, say=lambda _text: None, setup=setup, levels=(1,))

    level = measured["qos1"]
    assert measured["set_up"] == (
        "300 B over WSS, MQTT 5.0 with what the study adds to its messages, 10 publishers and 10 subscribers"
    )
    assert setup_from(measured) == setup
    assert min(level[f"{name}_per_s"] for name in ("published", "published_recorded", "received")) > 0
    assert 0 <= level["receive_resolution_ms"]["p50"] <= level["receive_resolution_ms"]["max"]
    assert level["schedule_error_ms"]["rate"] <= 1_000


@pytest.mark.parametrize(("ours", "theirs"), [(5, 4), (4, 5), (0, 0)])
def test_counts_that_disagree_or_say_nothing_are_no_calibration(tmp_path, ours, theirs):
    said = json.dumps({"received": theirs})
    node = Node((sys.executable, "-c", f"print('{said}')"), "127.0.0.1", free_port("127.0.0.1"))
    with BrokerProcess(node, folder=tmp_path / "0") as broker:
        while broker.is_alive():
            time.sleep(0.01)

        if theirs:
            require_equal(broker, "received", theirs)
        with pytest.raises(RunError, match=f"received {theirs} messages, the worker counts {ours}"):
            require_equal(broker, "received", ours)
