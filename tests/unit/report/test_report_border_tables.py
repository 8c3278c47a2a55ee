"""001's Tables I, II and III beside ours (B-01, B-05, B-06)."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from report_values import results_of as measured

from brokerlab.cli.known_drivers import known_drivers
from brokerlab.report.border_brokers import features, images
from brokerlab.report.border_parameters import parameters
from brokerlab.report.drivers import KnownDriver
from brokerlab.report.report import render

GIB = 2**30
DRIVERS = (
    KnownDriver("mosquitto", "Debian package mosquitto", "EPL-2.0", has_bridges=True),
    KnownDriver("mosquitto@2.1.2", "package mosquitto of Debian forky", "EPL-2.0", has_bridges=True),
    KnownDriver("nats", "Go module nats-server v2.12.1", "Apache-2.0", has_clusters=True),
    KnownDriver("rabbitmq", "Debian package rabbitmq-server", "MPL-2.0", has_clusters=True, departs=("hangs up",)),
    KnownDriver("emqx", "container image emqx:5", is_image=True, is_tried=False, has_clusters=True),
    KnownDriver("hivemq-4", "container image hivemq4", "commercial", is_image=True, is_tried=False, has_clusters=True),
    KnownDriver("hivemq", "Maven hivemq", "Apache-2.0"),
    KnownDriver("hbmqtt", "PyPI hbmqtt", "MIT"),
    KnownDriver("emitter", "container image emitter", is_image=True, is_tried=False),
    KnownDriver("moquette", "Maven moquette", has_clusters=True),  # which it has not: a difference to be seen
)


def link(rtt_ms):
    return {"there": {"delay_ms": rtt_ms / 2}, "back": {"delay_ms": rtt_ms / 2}}


def manifest_of(driver, *, nodes=5, rtt_ms=5.0, rate=1.0, qos=0, limits=True, topic="dst/mqtt/", port=1883, **workload):
    asked = {"cpus": 2.0, "memory_bytes": 2 * GIB}
    return {
        "broker": {"name": driver, "driver": driver, "version": "1.2", "join": "cluster", "nodes": [{}] * nodes,
                   "address": f"10.77.1.10:{port}"},
        "crossing": {"qos": [0, 1, 2], "lowered": []},
        "network": {"topology": {"between": link(rtt_ms), "router_switch": link(0), "switch_broker": link(0)}},
        "workload": {"publishers": 1, "subscribers": 100, "payload_bytes": 18, "qos": qos, "topics": {"publish": topic},
                     "schedule": {"rate_per_s": rate}} | workload,
    } | ({"limits": {"asked": asked}} if limits else {})  # fmt: skip


def results_of(*manifests, source="001/intext", repetitions=10, published=50):
    ids = [f"c{at}" for at in range(len(manifests))]
    return SimpleNamespace(
        published=[{"source": source}],
        probes=(),
        manifests=dict(zip(ids, manifests, strict=True)),
        runs=[{"cell": cell} for cell in ids for _ in range(repetitions)],
        throughput=[{"window": "send", "published": published}, {"window": "delivery", "published": -1}],
    )


def rows_of(table):
    return {row[0].text: row for block in table.blocks for row in block}


def test_table_1_has_every_printed_broker_and_those_of_the_study():
    table = features(results_of(manifest_of("nats")), DRIVERS)

    printed, others = table.blocks
    assert len(printed) == 18
    assert [(row[0].text, row[0].below) for row in printed][:2] == [("ActiveMQ", "Product"), ("D-MQTT", "Research")]
    assert [row[0].text for row in others] == ["nats"]
    assert [entry.text for entry in others[0][2:6]] == ["", "yes", "", "brokerlab’s"]
    assert others[0][6].below == "here Go"
    assert (others[0][9].text, others[0][9].below) == (
        "cluster of 5",
        "every pair proved at QoS 0, 1 and 2 in 1 of 1 run",
    )


@pytest.mark.parametrize(
    ("broker", "printed", "ours", "below", "mark"),
    [
        ("RabbitMQ", "yes", "yes", "", ""),
        ("Mosquitto", "blank", "no", "", ""),
        ("EMQX", "yes", "by image", "not tried", ""),
        ("HiveMQ", "yes", "by image", "not tried; not hivemq", ""),
        ("Emitter", "yes", "no", "", "warn"),
        ("Moquette-io", "blank", "yes", "", "good"),
        ("FogMQ", "Bridge-based", "–", "", "quiet"),
    ],
)
def test_clusters_stand_beside_the_printed_ones_and_differences_are_marked(broker, printed, ours, below, mark):
    row = rows_of(features(results_of(manifest_of("nats")), DRIVERS))[broker]

    assert row[2].text == printed
    assert (row[3].text, row[3].below, row[3].mark) == (ours, below, mark)


@pytest.mark.parametrize(
    ("broker", "printed", "ours", "below", "mark"),
    [
        ("Mosquitto", "yes", "its own, or brokerlab’s", "", ""),
        ("MQTT-ST", "yes", "its own, or brokerlab’s", "", ""),
        ("RabbitMQ", "yes", "brokerlab’s", "its own is not driven", "warn"),
        ("EMQX", "yes", "brokerlab’s", "its own is not driven; not tried", "warn"),
        ("HbMQTT", "blank", "brokerlab’s", "", "good"),
        ("Emma", "Dynamic", "–", "", "quiet"),
    ],
)
def test_bridges_stand_beside_the_printed_ones(broker, printed, ours, below, mark):
    row = rows_of(features(results_of(manifest_of("nats")), DRIVERS))[broker]

    assert row[4].text == printed
    assert (row[5].text, row[5].below, row[5].mark) == (ours, below, mark)


def test_licence_language_and_what_the_contract_suite_found_are_told():
    rows = rows_of(features(results_of(manifest_of("nats")), DRIVERS))

    assert (rows["HiveMQ"][1].text, rows["HiveMQ"][1].below) == ("hivemq-4, hivemq", "commercial; Apache-2.0")
    assert [(entry.text, entry.below, entry.mark) for entry in rows["HbMQTT"][6:8]] == [
        ("Python", "", ""),
        ("kept", "", ""),
    ]
    assert (rows["HiveMQ"][7].text, rows["HiveMQ"][7].below) == ("kept", "hivemq")
    assert (rows["RabbitMQ"][7].text, rows["RabbitMQ"][7].mark) == ("not in 1 point", "warn")
    assert rows["EMQX"][7].text == "not tried"
    assert rows["D-MQTT"][1].text == "no driver"


def test_a_qos_that_is_lowered_between_nodes_is_told():
    manifest = manifest_of("rabbitmq")
    manifest["crossing"]["lowered"] = [{"from": 0, "to": 1, "published_qos": 2, "delivered_qos": 1}]

    entry = rows_of(features(results_of(manifest), DRIVERS))["RabbitMQ"][9]

    assert entry.below.endswith("1 of 1 run; QoS 2 comes as 1")
    assert entry.mark == "warn"


def test_table_2_says_where_brokers_come_from_here():
    rows = rows_of(images(results_of(manifest_of("mosquitto"), manifest_of("nats")), DRIVERS))

    assert [entry.text for entry in rows["Mosquitto"]] == [
        *("Mosquitto", "alpine:3.12", "linux/amd64", "12.21 MB"),
        *("not an image here", "mosquitto 1.2", "Debian package mosquitto"),
    ]
    assert [entry.text for entry in rows["EMQX"][3:]] == [
        *("56.67 MB", "not known", "not in this study", "container image emqx:5"),
    ]
    assert (rows["HiveMQ"][6].text, rows["HiveMQ"][6].below) == (
        "hivemq-4: container image hivemq4",
        "hivemq: Maven hivemq",
    )
    assert [entry.text for entry in rows["nats"][4:]] == [
        "not an image here",
        "nats 1.2",
        "Go module nats-server v2.12.1",
    ]


def test_table_3_of_the_paper_s_own_parameters_has_no_difference():
    manifests = [manifest_of("nats", rtt_ms=rtt_ms, qos=qos) for rtt_ms in (5.0, 50.0) for qos in (0, 1, 2)]

    table = parameters(results_of(*manifests))

    assert table.row_count == 15
    assert {row[3].text for row in table.blocks[0]} == {"as printed"}
    told = {row[0].text: (row[1].text, row[2].text) for row in table.blocks[0]}
    assert told["RTT delay router-router link"] == ("5, 50 ms", "5, 50 ms")
    assert told["Broker RAM upper limit"] == ("2 GB", "2 GiB")
    assert told["Number of published messages"] == ("50", "50")
    assert told["Quality of Service (QoS)"] == ("0, 1, 2", "0, 1, 2")


def test_table_3_marks_what_is_other():
    """A small form: three nodes, 18 messages, rates beyond the printed one, no limits, one QoS."""
    small = {"nodes": 3, "limits": False, "topic": "dst/mqtt/{publisher}", "port": 26505, "subscribers": 6}
    manifests = [manifest_of("nats", rate=rate, **small) for rate in (1.0, 10.0)]

    rows = rows_of(parameters(results_of(*manifests, repetitions=1, published=18)))

    def told(name):
        return rows[name][2].text, rows[name][3].text, rows[name][3].mark

    assert told("Number of brokers") == ("3", "differs", "warn")
    assert told("RTT delay router-router link") == ("5 ms", "differs: not all of them", "warn")
    assert told("RTT delay switch-router link") == ("0 ms", "as printed", "")
    assert told("Broker RAM upper limit") == ("none", "differs", "warn")
    assert told("Number of CPU per broker") == ("none", "differs", "warn")
    assert told("Number of published messages") == ("18", "differs", "warn")
    assert told("Number of subscribers") == ("6", "differs", "warn")
    assert told("Number of publishers") == ("1", "as printed", "")
    assert told("MQTT broker port") == ("26505", "differs: a free port each time", "warn")
    assert told("Message publishing rate") == ("1, 10 msg/s", "as printed, among others", "good")
    assert told("Topics name") == ("dst/mqtt/{publisher}", "differs: a level for each publisher after it", "warn")
    assert told("Message size") == ("18 bytes", "as printed", "")
    assert told("Number of simulations") == ("1", "differs", "warn")
    assert told("Quality of Service (QoS)") == ("0", "differs: not all of them", "warn")


def test_a_run_that_never_started_says_nothing_of_limits():
    rows = rows_of(parameters(results_of(manifest_of("nats"), {})))

    assert rows["Broker RAM upper limit"][2].text == "2 GiB"


def test_another_study_has_none_of_them():
    results = results_of(manifest_of("nats"), source="003/table2")

    assert [table.row_count for table in (features(results, DRIVERS), images(results, DRIVERS))] == [0, 0]
    assert parameters(results).row_count == 0


def test_the_page_shows_all_three():
    printed = {"source": "001/intext", "metric": "cpu_rank", "cell": None, "same_place": None}
    results = replace(measured({("nats", 0): (1.0, None, None)}), published=(printed,))

    page = render(results, DRIVERS)

    assert [f"Table {number} of paper 001" in page for number in ("I", "II", "III")] == [True, True, True]
    assert "Schmit et Al." in page
    assert "openjdk:11-jre-slim" in page
    assert "Table I of paper 001" not in render(replace(results, published=()), DRIVERS)


def test_without_drivers_nothing_is_said_of_them():
    assert features(results_of(manifest_of("nats")), ()).row_count == 0


def test_every_driver_that_is_named_beside_the_paper_exists():
    known = {driver.broker for driver in known_drivers()}
    rows = rows_of(features(results_of(manifest_of("nats")), known_drivers()))

    named = {name for row in rows.values() if row[1].text != "no driver" for name in row[1].text.split(", ")}
    assert named <= known
    assert [name for name, row in rows.items() if row[1].text == "no driver"] == [
        *("D-MQTT", "DM-MQTT", "Emma", "FogMQ", "ILDM", "MQTT-NEG", "Schmit et Al."),
    ]
    assert rows["Mosquitto"][5].text.startswith("its own")
    assert (rows["RabbitMQ"][3].text, rows["VerneMQ"][3].text) == ("yes", "by image")
