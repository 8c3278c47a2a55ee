"""Brokers that go away and come back, targets that take nothing: nothing is lost, memory does not grow (F-08)."""

import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

import psutil
from bridge_rig import CONFIG, HOST, Bridge, Ledger, bridge_text, client, mosquitto

from brokerlab.load.client import Client

CONNECT, SUBSCRIBE = 0x10, 0x82  # the first bytes of packets
SENT = r"Sending (PUBREL|PUBLISH) to test-up-in \((?:d1, q2, r0, )?m(\d+)[,)]"  # of PUBLISH only those with DUP


def test_a_source_that_goes_away_and_comes_back_costs_nothing_at_qos_2(tmp_path):
    """It is stopped in the middle of the traffic, keeps its sessions, and is started again.

    What Mosquitto 2.0.11 had released when it ended it sometimes sends anew, which nobody can know for the same
    message: its log says which ones, and no other comes twice.
    """
    ledger = Ledger()
    with mosquitto(tmp_path / "stays") as there, mosquitto(tmp_path / "goes", config=CONFIG + "log_type all\n") as here:
        text = bridge_text(here.node.port, there.node.port, route=", qos: 2")
        with Bridge(tmp_path / "bridge", text) as bridge, client(there) as subscriber:
            subscriber.subscribe("t/#", 2)
            bridge.start()
            come_and_go(ledger, bridge, here, goes=here)
            ledger.hear(subscriber, patience_s=15)
            counters = bridge.stop()

    logs = [(tmp_path / f"goes{number}.log").read_text() for number in range(3)]
    assert ledger.lost == []
    assert set(ledger.duplicated) <= {packet_id - 1 for packet_id in sent_anew(logs)}  # the first message has 1
    assert counters[0]["reconnected"] >= 2


def sent_anew(logs):
    """Packet identifiers of messages that a Mosquitto released to the bridge, and published again after that."""
    released, again = set(), set()
    for kind, number in re.findall(SENT, "".join(logs)):
        if kind == "PUBREL":
            released.add(int(number))
        elif int(number) in released:
            again.add(int(number))
    assert released
    return again


def test_a_target_that_goes_away_and_comes_back_costs_nothing_at_qos_2(tmp_path):
    """Its subscriber is away meanwhile: Mosquitto 2.0.11 sends some messages again that it was sending when it ended,
    though their handshake had come to PUBREL, and whoever answered that takes them for new.
    """
    ledger = Ledger()
    with mosquitto(tmp_path / "stays") as here, mosquitto(tmp_path / "goes") as there:
        text = bridge_text(here.node.port, there.node.port, route=", qos: 2", protocol="5.0")
        kept_subscription(there, "-E")
        with Bridge(tmp_path / "bridge", text) as bridge:
            bridge.start()
            come_and_go(ledger, bridge, here, goes=there)
            ledger.arrived += kept_subscription(there, "-C", str(len(ledger.acknowledged)), "-W", "20")
            ledger.arrived += kept_subscription(there, "-W", "1")
            counters = bridge.stop()

    assert ledger.lost == []
    assert ledger.duplicated == []
    assert counters[0]["reconnected"] >= 2


def come_and_go(ledger, bridge, here, *, goes):
    for number in range(1, 3):
        publish_in_pieces(ledger, here.node.port, 100)
        goes.stop()
        bridge.wait_for("trying again", times=number)
        goes.start()
        bridge.wait_for("joined", times=number + 1)


def kept_subscription(process, *until):
    """What Mosquitto's own client gets of a session that stays when it goes."""
    command = ["mosquitto_sub", "-h", HOST, "-p", str(process.node.port), "-i", "kept", "-c", "-q", "2", "-t", "t/#"]
    heard = subprocess.run([*command, "-F", "%p", *until], capture_output=True, text=True, check=False)
    assert heard.stderr.replace("Timed out\n", "") == ""
    return [int(line) for line in heard.stdout.split()]


def publish_in_pieces(ledger, port, count):
    with Client(HOST, port, timeout_s=20) as publisher:
        ledger.publish(publisher, count, qos=2)


def test_what_the_target_does_not_take_stays_at_the_source(tmp_path):
    """A target that is stopped by SIGSTOP: the bridge reads no further, and all comes when it goes on (QoS 1)."""
    ledger = Ledger()
    with mosquitto(tmp_path / "a") as here, mosquitto(tmp_path / "b") as there:
        text = bridge_text(here.node.port, there.node.port, route=", qos: 1, inflight: 10, buffer: 64 KiB")
        with (
            Bridge(tmp_path / "bridge", text) as bridge,
            client(there) as subscriber,
            client(here) as publisher,
        ):
            subscriber.subscribe("t/#", 1)
            bridge.start()
            before = psutil.Process(bridge.pid).memory_info().rss
            os.kill(there.pid, signal.SIGSTOP)
            try:
                payload = bytes(20_000)
                for number in range(500):
                    publisher.publish(f"t/{number % 3}", b"%d %s" % (number, payload), qos=1)
                    ledger.acknowledged.append(number)
                grown = psutil.Process(bridge.pid).memory_info().rss - before
            finally:
                os.kill(there.pid, signal.SIGCONT)
            ledger.hear(subscriber, patience_s=15)
            counters = bridge.stop()

    assert grown < 5_000_000, "of ten million that wait"
    assert ledger.lost == []
    assert counters[0]["paused"] >= 1


def test_a_stop_by_sigterm_finishes_what_it_has_begun(tmp_path):
    """At QoS 1 a bridge that is stopped cleanly in the middle and started again duplicates nothing."""
    ledger = Ledger()
    with mosquitto(tmp_path / "a") as here, mosquitto(tmp_path / "b") as there:
        text = bridge_text(here.node.port, there.node.port, route=", qos: 1")
        with (
            Bridge(tmp_path / "bridge", text) as bridge,
            client(there) as subscriber,
            client(here) as publisher,
        ):
            subscriber.subscribe("t/#", 1)
            bridge.start()
            thread = threading.Thread(target=ledger.publish, args=(publisher, 300), kwargs={"qos": 1})
            thread.start()
            bridge.stop()
            bridge.start()
            thread.join()
            ledger.hear(subscriber)

    assert ledger.lost == []
    assert ledger.duplicated == []


def test_a_source_that_still_sends_hears_our_last_acknowledgements(tmp_path):
    """Bytes that come while the bridge closes do not reset the connection: the source would lose what we had said."""
    with socket.create_server((HOST, 0)) as source, mosquitto(tmp_path / "b") as there:
        text = bridge_text(source.getsockname()[1], there.node.port, route=", qos: 1")
        with Bridge(tmp_path / "bridge", text) as bridge:
            bridge.start(joins=False)
            with source.accept()[0] as connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                assert connection.recv(1024)[0] == CONNECT
                connection.sendall(b"\x20\x02\0\0")
                assert connection.recv(1024)[0] == SUBSCRIBE
                connection.sendall(b"\x90\x03\0\x01\x01")
                bridge.wait_for("joined")
                os.kill(there.pid, signal.SIGSTOP)  # so that the bridge must wait for it before it may go
                try:
                    connection.sendall(b"\x32\x07\0\x03t/1\0\x01")
                    while not has_read_all(connection.getpeername()[1]):
                        time.sleep(0.01)
                    os.kill(bridge.pid, signal.SIGTERM)
                    for number in range(2, 100):
                        connection.sendall(b"\x32\x07\0\x03t/1\0%c" % number)
                        time.sleep(0.003)
                finally:
                    os.kill(there.pid, signal.SIGCONT)
                said = b"".join(iter(lambda: connection.recv(1024), b""))
            assert bridge.ended() == 0

    assert said.startswith(b"\x40\x02\0\x01"), "PUBACK of the first"
    assert said.endswith(b"\xe0\0"), "DISCONNECT"


def has_read_all(port):
    """Whether the socket of this port has nothing that its process did not take."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return [row[4].split(":")[1] for row in rows if row[1].endswith(f":{port:04X}")] == ["00000000"]


def test_a_broker_that_does_not_answer_is_told_once_and_tried_again(tmp_path):
    with mosquitto(tmp_path / "here") as here:
        with socket.create_server((HOST, 0)) as closed:
            port = closed.getsockname()[1]
        text = json.dumps(
            {
                "bridge": 1,
                "name": "test",
                "brokers": {"here": {"address": f"{HOST}:{here.node.port}"}, "gone": {"address": f"{HOST}:{port}"}},
                "routes": {"up": {"from": "here", "to": "gone", "subscribe": "t/#"}},
            }
        )
        with Bridge(tmp_path / "bridge", text) as bridge:
            bridge.start(joins=False)
            bridge.wait_for("trying again")
            said = bridge.said()
            bridge.stop()

    assert said == f"bridge: gone ({HOST}:{port}): Connection refused; trying again\n"
