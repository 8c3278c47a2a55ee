"""gmqtt, a broker in Go.

Stock is its shipped configuration, but for what a run needs:

    listeners        one, at the asked address
    plugin_order     its counters, and no administration, which has a listener of its own
    max_packet_size  one byte less than shipped: MQTT 5 clients refuse the shipped value as out of range
    log level        warnings; it logs every client otherwise

    lossless         a queue of 1,000,000 messages for each client instead of 1,000; above it drops, and counts that

A cluster is its federation, which it calls experimental. Sessions stay with the node where they were made.

There is no durable: sessions survive only in a Redis beside it, and retained messages not even there. There is no
tuned, because its documentation recommends nothing.

To MQTT 5 clients it says that QoS 1 is the highest, and does serve QoS 2. Client certificates are in its configuration,
but no line of it reads them. Over WebSocket it loses a byte of a frame that ends one byte after what it reads at a
time, which with small messages is never the case.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from brokerlab.brokers.base import (
    OPEN,
    Count,
    Counter,
    Departure,
    Found,
    Group,
    Missing,
    Node,
    Seat,
    Security,
)
from brokerlab.brokers.built import MOSTLY, find_built, program_of, secret
from brokerlab.brokers.choice import check_choice
from brokerlab.brokers.seats import alone, of_seat
from brokerlab.brokers.source import GoModule
from brokerlab.brokers.telling import answer, prometheus
from brokerlab.study.values import BrokerChoice, Qos

_MODULE = "github.com/DrmagicE/gmqtt"
_CONFIG = "gmqtt.yml"
_HIGHEST_PACKET_SIZE = 268_435_455  # MQTT 5 section 2.2.3: the largest remaining length
_LOSSLESS_QUEUE = 1_000_000


class Gmqtt:
    name = "gmqtt"
    source = GoModule(_MODULE, "v0.5.0", f"{_MODULE}/cmd/gmqttd", "gmqttd")
    abilities = replace(
        MOSTLY,
        says_qos_at_5=Qos.AT_LEAST_ONCE,
        presets=("stock", "lossless"),
        has_credentials=True,
        has_clusters=True,
        departs=(Departure.NO_RETAIN_FLAG,),
        licence="MIT",
    )

    def find(self) -> Found | Missing:
        return find_built(self.name, self.source)

    def node(self, choice: BrokerChoice, *, folder: Path, host: str, port: int, security: Security = OPEN) -> Node:
        return self._node(choice, alone(folder, host, port), security)

    def cluster(self, choice: BrokerChoice, seats: Sequence[Seat], *, security: Security = OPEN) -> Group:
        return Group(
            tuple(self._node(choice, seat, of_seat(security, seat), seats) for seat in seats),
            is_together=True,  # each waits for the others, for a minute
        )

    def members(self, node: Node) -> int | None:
        config = json.loads(node.files[_CONFIG])
        told = answer(config["api"]["http"][0]["address"].replace("tcp:", "http:") + "/v1/federation/members")
        return sum(each["status"] == "STATUS_ALIVE" for each in told["members"]) if told else None

    def _node(self, choice: BrokerChoice, seat: Seat, security: Security, seats: Sequence[Seat] = ()) -> Node:
        check_choice(choice, self.abilities, security)
        config = _config(choice.preset, seat, security)
        if seats:
            config["api"] = _interface(seat)
            config["plugins"]["federation"] = _federation(seat, seats)
            config["plugin_order"].append("federation")
        return Node(
            argv=(program_of(self.find(), choice), "start", "-c", str(seat.folder / _CONFIG)),
            host=seat.host,
            port=seat.port,
            files={_CONFIG: json.dumps(config, indent=2) + "\n"},
            secrets={_passwords(security): _accounts(security.users)} if security.users else {},
            page=f"http://{seat.host}:{seat.spare[0]}/metrics",
        )

    def counters(self) -> tuple[Counter, ...]:
        """Names without labels are sums over QoS, and over the reasons to drop."""
        return (
            Counter("gmqtt_messages_received_total", Count.RECEIVED, is_exact=True),
            Counter("gmqtt_messages_sent_total", Count.SENT, is_exact=True),
            Counter("gmqtt_messages_dropped_total", Count.DROPPED, is_exact=True),
            Counter("gmqtt_sessions_active_current", Count.CONNECTIONS),
            Counter("gmqtt_subscriptions_current", Count.SUBSCRIPTIONS),
            Counter("gmqtt_messages_queued_current", Count.QUEUED, note="also those that wait for their last packet"),
        )

    def read_page(self, text: str) -> Mapping[str, float]:
        return prometheus(text)


def _config(preset: str, seat: Seat, security: Security) -> dict[str, Any]:
    """Its file is YAML, of which JSON is a part."""
    listener: dict[str, object] = {"address": f"{seat.host}:{seat.port}"}
    if security.transport.is_encrypted:
        listener["tls"] = {"cert": str(security.certificate), "key": str(security.key)}
    if security.transport.is_framed:
        listener["websocket"] = {"path": "/"}
    mqtt = {"max_packet_size": _HIGHEST_PACKET_SIZE}
    if preset == "lossless":
        mqtt["max_queued_messages"] = _LOSSLESS_QUEUE
    counters = f"{seat.host}:{seat.spare[0]}"
    plugins: dict[str, object] = {"prometheus": {"path": "/metrics", "listen_address": counters}}
    if security.users:
        plugins["auth"] = {"hash": "sha256", "password_file": str(_passwords(security))}
    return {
        "listeners": [listener],
        "mqtt": mqtt,
        "plugins": plugins,
        "plugin_order": (["auth"] if security.users else []) + ["prometheus"],
        "log": {"level": "warn", "format": "text"},
    }


def _federation(seat: Seat, seats: Sequence[Seat]) -> Mapping[str, object]:
    """By gossip the nodes find each other, and by calls they pass messages on."""
    gossip, calls = f"{seat.host}:{seat.spare[1]}", f"{seat.host}:{seat.spare[2]}"
    return {
        "node_name": f"node-{seat.index}",
        "fed_addr": calls,
        "advertise_fed_addr": calls,
        "gossip_addr": gossip,
        "advertise_gossip_addr": gossip,
        "retry_join": [f"{other.host}:{other.spare[1]}" for other in seats if other.index != seat.index],
        "retry_interval": "1s",
    }


def _interface(seat: Seat) -> Mapping[str, object]:
    """Where it tells its members: over HTTP, in front of gRPC."""
    behind = f"tcp://{seat.host}:{seat.spare[3]}"
    return {"grpc": [{"address": behind}], "http": [{"address": f"tcp://{seat.host}:{seat.spare[4]}", "map": behind}]}


def _passwords(security: Security) -> Path:
    return secret(security, "gmqtt_password.yml")


def _accounts(users: Mapping[str, str]) -> str:
    return json.dumps(
        [
            {"username": name, "password": hashlib.sha256(password.encode()).hexdigest()}
            for name, password in users.items()
        ]
    )
