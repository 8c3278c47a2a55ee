"""Every broker can be joined with Mosquitto by our bridge: both ways, at every QoS that it has, nothing back (F-08)."""

import secrets

import pytest
from bridge_rig import Bridge, client, mosquitto
from broker_rig import LOGINS, Client, received_until_quiet

from brokerlab.bridge.joint import CONFIG, Side, joint_between
from brokerlab.brokers.base import Departure

COUNT = 10


@pytest.fixture(scope="module")
def neighbour(tmp_path_factory):
    with mosquitto(tmp_path_factory.mktemp("neighbour") / "0") as running:
        yield running


def side_of(broker, protocol):
    login = LOGINS.get(broker.port)
    if login is None or login.user is None:
        return Side(f"{broker.host}:{broker.port}", protocol=protocol), {}
    side = Side(f"{broker.host}:{broker.port}", protocol=protocol, user=login.user, password="env:OF_BRIDGE")
    return side, {"OF_BRIDGE": login.password.decode()}


@pytest.mark.parametrize("protocol", ["3.1.1", "5.0"])
def test_a_joint_carries_messages_both_ways_and_none_back(broker, neighbour, tmp_path, protocol):
    topic, abilities = f"joint{secrets.token_hex(4)}", broker.driver.abilities
    if protocol not in abilities.protocols or (protocol == "5.0" and abilities.has_port_per_protocol):
        pytest.skip(f"{broker.driver.name} has no MQTT {protocol} here")
    side, environment = side_of(broker, protocol)
    most = abilities.says_qos_at_5 if protocol == "5.0" else None  # a bridge keeps to what it is told
    levels = [qos for qos in (0, 1, 2) if qos in abilities.qos and (most is None or qos <= most)]
    joint = joint_between(
        topic, Side(f"127.0.0.1:{neighbour.port}", protocol=protocol), side, subscribe=[f"{topic}/#"], qos=max(levels)
    )  # fmt: skip
    with (
        Bridge(tmp_path / "bridge", joint.files[CONFIG], **environment) as bridge,
        Client(broker.host, broker.port) as there,
        client(neighbour) as here,
    ):
        here.subscribe(f"{topic}/#", max(levels))
        there.subscribe(f"{topic}/#", max(levels))
        bridge.start()
        for number in range(COUNT):
            here.publish(f"{topic}/a", b"here %d" % number, qos=levels[number % len(levels)])
            there.publish(f"{topic}/b", b"there %d" % number, qos=levels[number % len(levels)])
        heard = [
            sorted(message.payload for message in received_until_quiet(each, expected=2 * COUNT))
            for each in (here, there)
        ]

    expected = sorted(
        [b"here %d" % number for number in range(COUNT)] + [b"there %d" % number for number in range(COUNT)]
    )
    is_marked_for_good = protocol == "3.1.1" or Departure.LOSES_PROPERTIES not in abilities.departs
    assert (heard == [expected, expected]) == is_marked_for_good
