"""Which version of MQTT our own bridge between two nodes speaks (F-08)."""

import json
from pathlib import Path

import pytest

from brokerlab.bridge.joint import CONFIG
from brokerlab.brokers.base import Node
from brokerlab.brokers.registry import driver
from brokerlab.lab.joints import Span, joint_process
from brokerlab.load.client import Login
from brokerlab.study.places import LOOPBACK


@pytest.mark.parametrize(
    ("names", "qos", "protocol"),
    [
        (("mosquitto", "hivemq"), 2, "5.0"),
        (("mosquitto", "gmqtt"), 1, "5.0"),
        (("mosquitto", "gmqtt"), 2, "3.1.1"),  # to clients of MQTT 5 it names QoS 1 as the highest
        (("mosquitto", "nats"), 1, "3.1.1"),
        (("rumqttd", "mosquitto"), 1, "3.1.1"),  # has another port for MQTT 5
    ],
)
def test_joint_speaks_the_latest_version_that_carries_its_qos(tmp_path: Path, names, qos, protocol):
    nodes = [Node(("broker",), "127.0.0.1", 1883 + number) for number in range(2)]
    joint = joint_process(
        Span((0, 1), (0, 1), ("#",)),
        nodes,
        [driver(name) for name in names],
        login=Login(),
        qos=qos,
        folder=tmp_path,
        place=LOOPBACK,
    )

    brokers = json.loads(joint.node.files[CONFIG])["brokers"]
    assert {each["protocol"] for each in brokers.values()} == {protocol}
