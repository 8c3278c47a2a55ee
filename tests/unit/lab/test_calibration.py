"""Calibrations that are kept, found again and missing, and the set-ups that they are of."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields

import pytest

from brokerlab.lab.calibration import (
    calibration_path,
    calibration_section,
    failures,
    missing_setups,
    store_calibration,
    store_failure,
    todays_versions,
)
from brokerlab.lab.reach import Reach
from brokerlab.lab.setups import USUAL, SetUp, lasting_s, setup_from, setup_of, setups_of, why_not
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


def test_what_cells_need_and_the_machine_was_not_calibrated_for_is_missing():
    cells = [cell(qos=Qos(qos), transport=each) for qos in (0, 2) for each in (Transport.TCP, Transport.TLS)]
    cells.append(cell(payload_bytes=17 << 20))
    store_calibration(content(qos0=RATES))

    encrypted, large = SetUp(transport=Transport.TLS), SetUp(17 << 20)
    assert setups_of(cells) == {USUAL: [0, 2], encrypted: [0, 2], large: [0]}
    assert missing_setups(cells) == {USUAL: [2], encrypted: [0, 2]}
    assert calibration_section(large, 0)["reason"] == "payloads over 16 MiB are not calibrated"
