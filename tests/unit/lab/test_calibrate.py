"""The meter is measured against a real null broker, each way of working at a QoS or two."""

import json
import sys
import time

import pyarrow.parquet as pq
import pytest

from brokerlab.brokers.base import Node
from brokerlab.brokers.port import free_port
from brokerlab.brokers.process import BrokerProcess
from brokerlab.errors import RunError
from brokerlab.lab import calibrate as calibrate_module
from brokerlab.lab.calibrate import Level, calibrate, publish_recorded
from brokerlab.lab.null import null_broker, require_equal
from brokerlab.lab.setups import SetUp, setup_from
from brokerlab.load.crew import Crew
from brokerlab.study.values import (
    PER_MESSAGE,
    Behaviour,
    Mqtt5,
    Transport,
)

pytestmark = pytest.mark.unit

MIX = ((100, 50.0), (300, 50.0))


def test_a_publisher_that_is_asked_for_far_too_much_stops_at_the_end_of_the_time(tmp_path):
    with null_broker(tmp_path) as null:
        reached = publish_recorded(Level(SetUp(publishers=3), 0, 0.1), null, 1e12)

    assert 0 < reached.messages < 1e9


def test_a_null_broker_that_dies_is_a_failed_run(monkeypatch):
    def die(*_args, **_more):
        raise ConnectionResetError("gone")

    monkeypatch.setattr("brokerlab.lab.calibrate.send_ceiling", die)
    with pytest.raises(RunError, match="null broker: gone"):
        calibrate(seconds=0.1, say=lambda _text: None, levels=(0,))


def test_subscribers_of_a_saturated_load_are_measured_as_they_work_there(monkeypatch):
    """They gather; those of a load with a schedule read what comes as it comes."""
    seen = []

    def keep(self, specs, **more):
        seen.extend((each.node, each.saturates) for each in specs)
        begin(self, specs, **more)

    begin = Crew.__init__
    monkeypatch.setattr(Crew, "__init__", keep)
    for saturates in (False, True):
        calibrate(seconds=0.1, say=lambda _text: None, setup=SetUp(saturates=saturates), levels=(0,))

    assert [each for each in seen if each[0] == "subscribers/0"] == [("subscribers/0", False), ("subscribers/0", True)]


@pytest.mark.parametrize(
    ("setup", "qos"),
    [
        (SetUp(saturates=True), 0),
        (SetUp(saturates=True, window=16, publishers=3), 2),
        (SetUp(inflight=1), 1),
        (SetUp(inflight=4, refills=True, publishers=3), 2),
        (SetUp(300, mix=MIX, subscribers=3), 0),
        (SetUp(300, each=(0, 300), publishers=3), 1),
        (SetUp(3, topics=10, publishers=3, subscribers=3), 0),
        (SetUp(0), 1),
        (SetUp(keeps_session=True, protocol="5.0"), 2),
        (SetUp(behaviour=Behaviour.PER_MESSAGE, publishers=3), 1),
        (SetUp(behaviour=Behaviour.PER_MESSAGE_ABRUPT), 1),
    ],
)
def test_each_way_of_working_has_ceilings_of_its_own(setup, qos):
    """The null broker has counted the same, or there would be none; a closed loop has no schedule to keep."""
    level = calibrate(seconds=0.1, say=lambda _text: None, setup=setup, levels=(qos,))[f"qos{qos}"]

    assert min(level[f"{name}_per_s"] for name in ("published_recorded", "received")) > 0
    assert (level["published_per_s"] is None) == (setup.behaviour in PER_MESSAGE)
    assert (level["schedule_error_ms"] is None) == setup.is_closed
    assert ("schedule" in level["surroundings"]) != setup.is_closed


@pytest.mark.parametrize(("qos", "answers", "protocol"), [(0, 2, "3.1.1"), (2, 1, "5.0"), (1, 0, "5.0")])
def test_devices_that_answer_have_a_ceiling_and_who_receives_is_played_answers(qos, answers, protocol, monkeypatch):
    """The null broker counts every answer, while it is told that what it plays has come."""
    asked = {}

    def keep(self, specs, **more):
        asked.update({each.node: (int(each.workload.qos), each.hears_qos) for each in specs})
        begin(self, specs, **more)

    begin = Crew.__init__
    monkeypatch.setattr(Crew, "__init__", keep)
    mqtt5 = Mqtt5(response_topic=protocol == "5.0")
    setup = SetUp(answers=answers, protocol=protocol, mqtt5=mqtt5, publishers=3, subscribers=2)
    level = calibrate(seconds=0.1, say=lambda _text: None, setup=setup, levels=(qos,))[f"qos{qos}"]

    assert level["answered_per_s_per_core"] * level["cpu_us_per_message"]["answered"] == pytest.approx(1e6)
    assert asked == {"publishers/0": (qos, 0), "subscribers/0": (answers, 0), "devices/0": (answers, qos)}


@pytest.mark.parametrize(
    ("qos", "kind"),
    [
        (0, {"publishers": 3}),
        (1, {"protocol": "5.0", "mqtt5": Mqtt5(user_properties=2)}),
        (2, {"payload_bytes": 300_000}),
        (1, {"saturates": True, "window": 64}),
        (2, {"inflight": 4, "refills": True}),
    ],
)
def test_self_loops_have_one_ceiling_of_publishing_and_hearing(qos, kind):
    """All that they published has come back to them, and the null broker has counted the same, or there were none."""
    level = calibrate(seconds=0.1, say=lambda _text: None, setup=SetUp(loops=True, **kind), levels=(qos,))[f"qos{qos}"]

    assert level["published_per_s"] is None
    assert level["published_recorded_per_s"] == level["received_per_s"] > 0
    assert level["published_recorded_per_s_per_core"] * level["cpu_us_per_message"]["received"] == pytest.approx(1e6)
    assert level["receive_resolution_ms"]["max"] >= level["receive_resolution_ms"]["p50"]
    assert (level["schedule_error_ms"] is None) == ("saturates" in kind or "refills" in kind)


def test_what_is_played_has_the_sizes_and_the_identities_of_the_load(tmp_path, monkeypatch):
    """A subscriber takes all of it for messages of the publisher, in their order."""
    found = []

    def look(run):
        found.append(pq.read_table(run.files("deliveries")).to_pydict())
        return look_in(run)

    look_in = calibrate_module._arrivals
    monkeypatch.setattr(calibrate_module, "_arrivals", look)
    for setup in (SetUp(3, topics=10), SetUp(0), SetUp(300, mix=((5, 50.0), (300, 50.0))), SetUp(9, each=(1, 9))):
        calibrate(seconds=0.1, say=lambda _text: None, setup=setup, levels=(1,))

    assert [set(each["payload_bytes"]) for each in found] == [{3}, {0}, {5, 300}, {1, 9}]
    for each in found:
        assert set(each["publisher"]) == {0}
        assert each["seq"] == list(range(len(each["seq"])))


def test_publishers_that_wait_for_acknowledgements_are_asked_for_more_than_all_of_them_can(monkeypatch):
    """What one publisher reached without rows is far from that."""
    asked = []

    def keep(level, null, per_s):
        asked.append(per_s)
        return publish_recorded(level, null, per_s)

    monkeypatch.setattr(calibrate_module, "publish_recorded", keep)
    level = calibrate(seconds=0.1, say=lambda _text: None, setup=SetUp(inflight=1, publishers=16), levels=(1,))["qos1"]

    assert asked == [pytest.approx(32 * level["published_per_s"])]


def test_a_window_that_is_kept_full_is_never_waited_for(tmp_path):
    """What is published counts as delivered: a message that were never delivered would hold its place for a second."""
    with null_broker(tmp_path) as null:
        reached = publish_recorded(Level(SetUp(saturates=True, window=16), 0, 0.3), null, 1.0)

    assert reached.messages > 64


def test_json_and_long_payloads_to_several_subscribers_have_ceilings_too():
    """A payload of 16 MiB takes a while to prepare, unless those who are played it share it."""
    template = '{"seq": {seq}, "at": {intended_ns}, "value": {random}}'
    for setup in (SetUp(80, subscribers=3, template=template), SetUp(16 << 20, subscribers=10)):
        level = calibrate(seconds=0.1, say=lambda _text: None, setup=setup, levels=(1,))["qos1"]

        assert min(level[f"{name}_per_s"] for name in ("published", "published_recorded", "received")) > 0


def test_a_setup_of_mqtt_5_over_wss_has_ceilings_too():
    """Aliases stand for topics, and receivers allow few messages in flight: counts agree if the null broker obeys."""
    mqtt5 = Mqtt5(user_properties=2, metadata=True, topic_alias=True, subscription_identifiers=True, receive_maximum=20)
    setup = SetUp(300, Transport.WSS, "5.0", publishers=10, subscribers=10, mqtt5=mqtt5)

    measured = calibrate(seconds=0.1, say=lambda _text: None, setup=setup, levels=(1,))

    level = measured["qos1"]
    assert measured["set_up"] == (
        "300 B over WSS, MQTT 5.0 with 2 user properties, metadata, topic alias, receive maximum 20 and subscription "
        "identifiers, 10 publishers and 10 subscribers"
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
