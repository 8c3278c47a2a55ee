import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields

import pyarrow.parquet as pq
import pytest

from brokerlab.brokers.base import Node
from brokerlab.brokers.port import free_port
from brokerlab.brokers.process import BrokerProcess
from brokerlab.errors import RunError
from brokerlab.lab import calibrate as calibrate_module
from brokerlab.lab.calibrate import Level, calibrate, publish_recorded
from brokerlab.lab.calibration import (
    calibration_path,
    calibration_section,
    failures,
    missing_setups,
    store_calibration,
    store_failure,
    todays_versions,
)
from brokerlab.lab.null import null_broker, require_equal
from brokerlab.lab.reach import Reach
from brokerlab.lab.setups import USUAL, SetUp, lasting_s, setup_from, setup_of, setups_of, why_not
from brokerlab.load.crew import Crew
from brokerlab.study.ensemble_values import Ensemble
from brokerlab.study.placement_values import SPREAD, Placement, Spot
from brokerlab.study.plan import Cell
from brokerlab.study.values import (
    PER_MESSAGE,
    Arrivals,
    Behaviour,
    BrokerChoice,
    ClientLife,
    Content,
    Echo,
    Mqtt5,
    Payload,
    Qos,
    Replay,
    Roles,
    Schedule,
    SessionKind,
    Topics,
    Transport,
    Workload,
)

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


RATES = {"published_recorded_per_s": 1.0, "received_per_s": 2.0}


def content(**said):
    """A calibration of today."""
    return {"format": 1, "versions": dict(todays_versions())} | said


def test_what_was_kept_is_found_again(cache):
    path = store_calibration(content(qos0=RATES))

    assert path.is_relative_to(cache / "brokerlab")
    assert calibration_section() == {"value": content(qos0=RATES), "reason": None}


def test_a_damaged_calibration_is_null_with_its_reason():
    store_calibration(content())
    calibration_path().write_text("{", encoding="utf-8")

    section = calibration_section()

    assert section["value"] is None
    assert "cannot be read" in section["reason"]


def test_each_setup_is_kept_beside_the_usual_one_and_replaces_its_like():
    for number, size in enumerate((1024, 64, 256, 1024)):
        store_calibration(content(payload_bytes=size, number=number))
    store_calibration(content(payload_bytes=64, transport="tls", number=4))

    assert calibration_section()["value"] == content(payload_bytes=64, number=1)
    assert calibration_section(SetUp(256))["value"]["number"] == 2
    assert calibration_section(SetUp(1024))["value"]["number"] == 3
    assert calibration_section(SetUp(transport=Transport.TLS))["value"]["number"] == 4
    assert calibration_section(SetUp(transport=Transport.WSS)) == {
        "value": None,
        "reason": "the meter was not calibrated for 64 B over WSS, MQTT 3.1.1",
    }


def test_a_qos_that_is_measured_later_is_kept_beside_the_others():
    again = RATES | {"received_per_s": 3.0}
    store_calibration(content(qos0=RATES, qos1=RATES))
    store_calibration(content(qos1=again))

    assert calibration_section()["value"] == content(qos0=RATES, qos1=again)
    assert calibration_section(qos=1)["reason"] is None
    assert calibration_section(qos=2)["reason"].endswith("for 64 B over TCP, MQTT 3.1.1 at QoS 2")


MIX = ((100, 50.0), (300, 50.0))


def cell(*, nodes=1, **load):
    return Cell("c", (), BrokerChoice("b", "embedded"), Workload(**load), ensemble=Ensemble(nodes=nodes))


@pytest.mark.parametrize(
    ("made", "setup"),
    [
        (cell(), USUAL),
        (cell(payload_bytes=4), SetUp(4)),
        (cell(payload_bytes=300, payload=Payload(mix=MIX)), SetUp(300, mix=MIX)),
        (cell(payload_bytes=300, payload=Payload(mix=((300, 50.0), (300, 50.0)))), SetUp(300)),
        (cell(payload_bytes=300, payload=Payload(each=(9, 300))), SetUp(300, each=(9, 300))),
        (cell(topics=Topics(count=11)), SetUp(topics=100)),
        (cell(schedule=Schedule(Arrivals.SATURATE, window=100)), SetUp(saturates=True, window=64)),
        (cell(schedule=Schedule(inflight=20)), USUAL),
        (cell(schedule=Schedule(inflight=20), qos=Qos(1), publishers=11), SetUp(inflight=16, publishers=8)),
        (cell(schedule=Schedule(Arrivals.WINDOW, inflight=1), qos=Qos(2)), SetUp(inflight=1, refills=True)),
        (cell(clients=ClientLife(session=SessionKind.PERSISTENT)), SetUp(keeps_session=True)),
        (
            cell(clients=ClientLife(Behaviour.PER_MESSAGE), publishers=99),
            SetUp(behaviour=Behaviour.PER_MESSAGE, publishers=64),
        ),
        (cell(clients=ClientLife(Behaviour.STORM)), USUAL),
        (cell(role=Roles.ECHO, echo=Echo(qos=Qos(1))), SetUp(answers=1)),
        (cell(role=Roles.LOOP), SetUp(loops=True)),
        (cell(transport=Transport.WS, protocol="3.1"), SetUp(transport=Transport.WS, protocol="3.1")),
        (cell(publishers=11, subscribers=10), SetUp(publishers=100, subscribers=10)),
        (cell(publishers=11, nodes=2), SetUp(publishers=10)),
        (cell(publishers=70_000), SetUp(publishers=10_000)),
        (cell(schedule=Schedule(Arrivals.SATURATE)), SetUp(saturates=True)),
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


PLACED = {"publishers": 50, "subscribers": 60}


@pytest.mark.parametrize(
    ("made", "publishers", "subscribers"),
    [
        (cell(role=Roles.ECHO, publishers=500), 1000, 1000),
        (cell(role=Roles.LOOP, publishers=50), 100, 100),
        (cell(nodes=50, **PLACED, placement=Placement(Spot.ONE)), 100, 10),
        (cell(nodes=50, **PLACED, placement=Placement(locality=SPREAD)), 100, 10),
        (cell(nodes=50, **PLACED, placement=Placement(subscribers=Spot.RANDOM)), 1, 100),
        (cell(nodes=50, **PLACED, placement=Placement(locality=50.0)), 100, 100),
        (cell(nodes=2, **PLACED, placement=Placement((80.0, 20.0), (90.0, 10.0))), 100, 100),
    ],
)
def test_a_setup_has_the_connections_of_the_largest_worker(made, publishers, subscribers):
    """Roles and places decide how many that are."""
    found = setup_of(made)

    assert (found.publishers, found.subscribers) == (publishers, subscribers)


@pytest.mark.parametrize(
    ("open_files", "ports", "payload_bytes", "rounded"),
    [
        (500, 9000, 64, 500),
        (9000, 500, 64, 500),
        (100, 9000, 64, 150),
        (9000, 9000, 1 << 20, 256),
        (9000, 9000, 8 << 20, 150),
    ],
)
def test_connections_are_rounded_up_as_far_as_the_machine_has_them(
    monkeypatch, open_files, ports, payload_bytes, rounded
):
    """No file, port or memory is taken that the run itself would not take."""
    monkeypatch.setattr("brokerlab.lab.setups.read_reach", lambda: Reach(open_files, ports, memory=1))

    assert setup_of(cell(publishers=150, payload_bytes=payload_bytes)).publishers == rounded


def test_json_and_records_of_a_file_are_setups_of_their_own():
    template = '{"seq": {seq}}'
    written = setup_of(cell(payload_bytes=40, payload=Payload(Content.JSON, template)))
    replayed = setup_of(cell(payload_bytes=40, payload=Payload(replay=Replay("f.csv", "0" * 64))))

    assert written == SetUp(40, template=template)
    assert written.text == "40 B of JSON (170e3ab6) over TCP, MQTT 3.1.1"
    for each in (written, replayed):
        assert setup_from(json.loads(json.dumps(each.facts))) == each
    assert "records of a file are not calibrated" in calibration_section(replayed, 0)["reason"]
    assert missing_setups([cell(payload=Payload(replay=Replay("f.csv", "0" * 64)))]) == {}


def test_setups_that_differ_have_texts_that_differ():
    values = {int: 7, bool: True, type(None): 9}
    added = [Mqtt5(**{each.name: values[type(each.default)]}) for each in fields(Mqtt5)]
    setups = [SetUp(protocol="5.0", mqtt5=each) for each in (Mqtt5(), *added, Mqtt5(user_properties=70))]
    setups += [SetUp(template=each) for each in ("{seq}", "{seq} ")]
    setups += [SetUp(is_replay=True), SetUp(is_replay=True, template="{seq}"), SetUp(subscribers=7)]
    setups += [SetUp(publishers=7), SetUp(1000), SetUp(1024), SetUp(transport=Transport.WS), USUAL]
    setups += [SetUp(saturates=True), SetUp(saturates=True, window=64), SetUp(inflight=4), SetUp(inflight=8)]
    setups += [SetUp(inflight=4, refills=True), SetUp(topics=10), SetUp(keeps_session=True)]
    setups += [SetUp(300, mix=MIX), SetUp(300, each=(100, 300)), SetUp(300, mix=MIX, template="{seq}"), SetUp(300)]
    setups += [SetUp(behaviour=each) for each in PER_MESSAGE] + [SetUp(answers=qos) for qos in (0, 1)]
    setups.append(SetUp(loops=True))

    assert len({each.text for each in setups}) == len(set(setups)) == len(setups) == 37


def test_so_much_at_once_is_not_calibrated():
    assert why_not(SetUp(4 << 20, subscribers=1_000)) == ""
    assert "over 10,000 connections" in why_not(SetUp(4 << 20, publishers=10_000))


def test_many_connections_are_measured_for_longer():
    assert lasting_s(0.3, 1) == lasting_s(0.3, 1_000) == 0.3
    assert lasting_s(0.3, 10_000) > 1
    assert lasting_s(20.0, 10_000) == 20.0


def test_what_another_version_measured_is_missing_and_mixes_with_nothing():
    old = content(qos0=RATES, qos1=RATES, versions=dict(todays_versions()) | {"numpy": "1.0"})
    store_calibration(old)

    assert calibration_section(qos=0)["value"] is None
    assert "with other versions" in calibration_section(qos=0)["reason"]
    assert missing_setups([cell()]) == {USUAL: [0]}
    store_calibration(content(qos0=RATES))
    assert calibration_section()["value"] == content(qos0=RATES)


@pytest.mark.parametrize(
    "entry",
    [
        {"transport": "quic"}, {"mqtt5": {"more": 1}}, {"mqtt5": None}, {"payload_bytes": None}, {"qos0": None},
        {"qos0": {}}, {"qos0": {"received_per_s": "fast"}}, {"versions": None}, {"failed": 3},
    ],
)  # fmt: skip
def test_an_entry_that_cannot_be_read_is_absent_and_the_others_are_there(entry):
    path = calibration_path()
    path.parent.mkdir(parents=True)
    encrypted = content(transport="tls", qos0=RATES)
    path.write_text(json.dumps(content(qos0=RATES) | entry | {"others": [None, "x", encrypted]}))

    assert calibration_section(SetUp(transport=Transport.TLS), 0)["value"] == encrypted
    assert calibration_section(qos=0)["value"] is None
    assert missing_setups([cell(), cell(transport=Transport.TLS)]) == {USUAL: [0]}
    store_calibration(content(qos0=RATES))
    assert calibration_section(qos=0)["value"] == content(qos0=RATES)
    assert calibration_section(SetUp(transport=Transport.TLS), 0)["value"] == encrypted


@pytest.mark.parametrize("others", [None, {}, 3, "x"])
def test_others_that_are_none_leave_the_first(others):
    store_calibration(content(qos0=RATES))
    calibration_path().write_text(json.dumps(content(qos0=RATES, others=others)))

    assert calibration_section(qos=0)["value"] == content(qos0=RATES)


def test_calibrations_that_are_kept_at_the_same_time_are_all_kept():
    def keep(first):
        for size in range(first, first + 10):
            store_calibration(content(payload_bytes=size, qos0=RATES))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(keep, (100, 200, 300, 400)))

    kept = [
        calibration_section(SetUp(first + more), 0)["value"] for first in (100, 200, 300, 400) for more in range(10)
    ]
    assert None not in kept


def test_why_a_calibration_failed_is_kept_until_it_succeeds():
    store_calibration(content(qos0=RATES))
    store_failure(USUAL, 1, "the null broker died")
    cells = [cell(qos=Qos(1)), cell()]

    reason = calibration_section(qos=1)["reason"]
    assert reason.startswith(
        "the meter could not be calibrated for 64 B over TCP, MQTT 3.1.1 at QoS 1: the null broker died; "
    )
    assert failures(cells) == [reason]
    assert missing_setups(cells) == {}
    assert calibration_section(qos=0)["value"] == content(qos0=RATES) | USUAL.facts
    store_calibration(content(qos1=RATES))
    assert calibration_section(qos=1)["value"] == content(qos0=RATES, qos1=RATES) | USUAL.facts
    assert failures(cells) == []


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


def test_what_cells_need_and_the_machine_was_not_calibrated_for_is_missing():
    cells = [cell(qos=Qos(qos), transport=each) for qos in (0, 2) for each in (Transport.TCP, Transport.TLS)]
    cells.append(cell(payload_bytes=17 << 20))
    store_calibration(content(qos0=RATES))

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
