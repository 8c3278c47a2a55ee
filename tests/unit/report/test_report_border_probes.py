"""001's Table I by what kept probes found (B-05)."""

import pytest
from test_report_border_tables import DRIVERS, manifest_of, results_of, rows_of

from brokerlab.report.border_brokers import features, probe_command

PROBED = 8  # columns
KEPT = 7
ALL = {"retained": "crosses", "session": "crosses", "takeover": "crosses", "share": "not supported", "will": "crosses"}


def probe_of(driver, kind, *, seen=ALL, lowered=(), day="2026-11-16", nodes=3, version="1.2", failed=None):
    about = {"driver": driver, "kind": kind, "made_at": f"{day}T10:00:00+00:00", "version": version, "nodes": nodes}
    if failed is not None:
        return about | {"failed": failed}
    properties = [{"id": name, "title": "", "seen": verdict, "ways": []} for name, verdict in seen.items()]
    return about | {"messages": {"qos": [0, 1, 2], "lowered": list(lowered)}, "properties": properties}


def row_of(name, *probes):
    results = results_of(manifest_of("nats"))
    results.probes = probes
    return rows_of(features(results, DRIVERS))[name]


def test_a_probe_says_what_crosses_and_of_which_version():
    entry = row_of("RabbitMQ", probe_of("rabbitmq", "cluster"))[PROBED]

    assert (entry.text, entry.mark) == ("cluster of 3", "")
    assert entry.below == (
        "across: messages at QoS 0, 1 and 2, retained, session, takeover, will; share: not supported "
        "(rabbitmq 1.2, 2026-11-16)"
    )


def test_without_a_probe_it_says_so():
    assert (row_of("RabbitMQ")[PROBED].text, row_of("D-MQTT")[PROBED].text) == ("not probed", "–")


def test_nodes_that_did_not_join_are_marked_whatever_the_driver_says():
    entry = row_of("RabbitMQ", probe_of("rabbitmq", "cluster", failed="nothing came from node 0 to node 2"))[PROBED]

    assert (entry.text, entry.mark) == ("no cluster of 3", "bad")
    assert entry.below.startswith("not joined: nothing came from node 0 to node 2 (rabbitmq 1.2")


@pytest.mark.parametrize(
    ("broker", "driver", "kind", "mark"),
    [("Mosquitto", "mosquitto", "bridge", ""), ("Moquette-io", "moquette", "cluster", "good")],
)
def test_what_the_paper_has_no_mark_for_is_marked(broker, driver, kind, mark):
    assert row_of(broker, probe_of(driver, kind))[PROBED].mark == mark


def test_a_qos_that_is_lowered_on_the_way_is_marked():
    lowered = [{"from": start, "to": 1, "published_qos": 2, "delivered_qos": 1} for start in (0, 2)]

    entry = row_of("RabbitMQ", probe_of("rabbitmq", "cluster", lowered=lowered))[PROBED]

    assert entry.mark == "warn"
    assert "messages at QoS 0, 1 and 2, 2 as 1, retained" in entry.below


def test_what_crosses_on_some_ways_and_what_was_not_seen_are_told():
    seen = {"retained": "crosses on 4 of 6 ways", "session": "unknown", "will": "does not cross"}

    below = row_of("Mosquitto", probe_of("mosquitto", "bridge", seen=seen))[PROBED].below

    assert "retained: crosses on 4 of 6 ways; session: not seen; will: does not cross" in below


def test_the_newest_of_several_versions_counts_and_both_ways_to_join_stand():
    old, new = probe_of("mosquitto", "bridge", day="2026-11-15"), probe_of("mosquitto@2.1.2", "bridge", version="2.1.2")
    both = row_of("Mosquitto", old, new, probe_of("mosquitto", "cluster", failed="it has none"))[PROBED]

    assert both.text == "no cluster of 3 and bridge of 3"
    assert "(mosquitto@2.1.2 2.1.2, 2026-11-16)" in both.below


def test_the_probe_against_the_specification_stands_beside_what_the_driver_names():
    about = {"driver": "rabbitmq", "kind": "conformance", "made_at": "2026-11-16", "version": "3.10"}

    broken = row_of("RabbitMQ", about | {"counts": {"kept": 90, "broken": 2, "unknown": 1}})[KEPT]
    clean = row_of("HbMQTT", about | {"driver": "hbmqtt", "counts": {"kept": 60, "broken": 0}})[KEPT]

    said = "90 checks kept; 1 unknown; the driver names 1 point; rabbitmq 3.10, 2026-11-16"
    assert (broken.text, broken.below, broken.mark) == ("not in 2 checks", said, "warn")
    assert (clean.text, clean.below, clean.mark) == ("kept", "60 checks kept; hbmqtt 3.10, 2026-11-16", "")


def test_the_command_names_the_brokers_that_were_not_probed_and_can_be():
    results = results_of(manifest_of("nats"))
    results.probes = (probe_of("mosquitto@2.1.2", "bridge"), probe_of("nats", "cluster"))

    command = probe_command(results, DRIVERS)

    assert command == "brokerlab brokers probe hivemq hbmqtt moquette rabbitmq --nodes 3 --keep DIR"


def test_where_all_were_probed_there_is_no_command():
    results = results_of(manifest_of("nats"))
    results.probes = tuple(probe_of(driver.name, "bridge") for driver in DRIVERS)

    assert probe_command(results, DRIVERS) is None
