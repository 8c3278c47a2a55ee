"""FluxMQ, a broker in Go with etcd inside.

Stock is its defaults, but for what a run needs:

    cluster    a cluster of one node: without a cluster FluxMQ 1.0.0 sends no retained message to a new subscriber,
               and refuses clients that want their session kept
    listeners  one at the asked address; those that are not named stay at their defaults, on all addresses
    log        warnings

    lossless   a queue of 1,000,000 messages for an absent client instead of 1,000. A client that is there but slow
               makes its publishers wait, and nothing is dropped.
    durable    what its stores write is synchronised to the disk at once. Retained messages were there again after a
               kill; sessions and what waited for them were not, and after a stop they were.
    tuned      what its documentation recommends for many subscribers of a topic: QoS 2 is acknowledged before the
               message is handed on

MQTT 5 has a port of its own; inside TLS one port speaks all versions. FluxMQ has users only in a service beside it.
A delivery that was not acknowledged it does not send again when the client comes back.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from brokerlab.brokers.base import OPEN, Found, Group, Missing, Node, Seat, Security
from brokerlab.brokers.built import MOSTLY, find_built, program_of
from brokerlab.brokers.choice import check_choice
from brokerlab.brokers.seats import alone
from brokerlab.brokers.source import GoModule
from brokerlab.brokers.telling import page_text, prometheus
from brokerlab.study.values import BrokerChoice

_MODULE = "github.com/absmach/fluxmq"
_CONFIG = "fluxmq.yml"
_DATA = "data"
_LOSSLESS_QUEUE = 1_000_000
_LOOPBACK = "127.0.0.1"  # etcd takes clients at no other address

_PRESETS: Mapping[str, Mapping[str, Mapping[str, object]]] = {
    "lossless": {"session": {"max_offline_queue_size": _LOSSLESS_QUEUE}},
    "durable": {"storage": {"badger_sync_writes": True, "queue_ack_durability": "fsync"}},
    "tuned": {"broker": {"async_fan_out": True}},
}


class FluxMQ:
    name = "fluxmq"
    source = GoModule(_MODULE, "v1.0.0", f"{_MODULE}/cmd", "fluxmq")
    abilities = replace(
        MOSTLY,
        presets=("stock", "lossless", "durable", "tuned"),
        has_client_certificates=True,
        has_clusters=True,
        has_port_per_protocol=True,
        licence="Apache-2.0",
    )

    def find(self) -> Found | Missing:
        return find_built(self.name, self.source)

    def node(self, choice: BrokerChoice, *, folder: Path, host: str, port: int, security: Security = OPEN) -> Node:
        seat = alone(folder, host, port, spare=3)
        return self._node(choice, seat, [seat], security)

    def cluster(self, choice: BrokerChoice, seats: Sequence[Seat], *, security: Security = OPEN) -> Group:
        return Group(
            tuple(self._node(choice, seat, seats, security) for seat in seats),
            is_together=True,  # etcd serves when most of the nodes are there
        )

    def members(self, node: Node) -> int | None:
        """What the etcd in it says: FluxMQ's own list calls a node healthy for long after it was killed."""
        told = page_text(f"http://{json.loads(node.files[_CONFIG])['cluster']['etcd']['client_addr']}/metrics")
        return None if told is None else 1 + int(prometheus(told).get("etcd_network_active_peers", 0))

    def _node(self, choice: BrokerChoice, seat: Seat, seats: Sequence[Seat], security: Security) -> Node:
        check_choice(choice, self.abilities, security)
        here = seat.folder
        config: dict[str, object] = {
            "server": _server(seat, security),
            "log": {"level": "warn"},
            "storage": {"badger_dir": str(here / _DATA / "badger")},
            "cluster": _cluster(seat, seats, here / _DATA / "etcd"),
        }
        for part, changed in _PRESETS.get(choice.preset, {}).items():
            config[part] = {**_as_mapping(config.get(part)), **changed}
        return Node(
            argv=(program_of(self.find(), choice), "-config", str(here / _CONFIG)),
            host=seat.host,
            port=seat.port,
            files={_CONFIG: json.dumps(config, indent=2) + "\n"},
            scratch=(_DATA,),
            stop_s=15.0,
        )


def _server(seat: Seat, security: Security) -> Mapping[str, object]:
    """All listeners that would be there otherwise, with an address for one."""
    asked: dict[str, object] = {"addr": f"{seat.host}:{seat.port}"}
    if security.transport.is_encrypted:
        slot = "tls"
        asked |= {"cert_file": str(security.certificate), "key_file": str(security.key)}
        if security.authority:
            asked |= {"ca_file": str(security.authority), "client_auth": "require"}
    else:
        slot = "v5" if security.protocol == "5.0" else "v3"
    none: Mapping[str, object] = {"v3": {"addr": ""}, "v5": {"addr": ""}}
    framed = security.transport.is_framed
    return {
        "mqtt": {
            "tcp": none if framed else {**none, slot: asked},
            "websocket": {**none, slot: asked} if framed else none,
        },
        "amqp": {"plain": {"addr": ""}},
        "amqp091": {"plain": {"addr": ""}},
        "admin_api_addr": "",
        "health_enabled": False,
    }


def _cluster(seat: Seat, seats: Sequence[Seat], data: Path) -> Mapping[str, object]:
    """A cluster of one where a node is alone."""
    others = {_name(other): _transport(other) for other in seats if other.index != seat.index}
    return {
        "enabled": True,
        "allow_insecure": True,
        "node_id": _name(seat),
        "etcd": {
            "data_dir": str(data),
            "bind_addr": _etcd(seat),
            "client_addr": f"{_LOOPBACK}:{seat.spare[2]}",
            "initial_cluster": ",".join(f"{_name(each)}=http://{_etcd(each)}" for each in seats),
            "bootstrap": True,
        },
        "transport": {"bind_addr": _transport(seat), **({"peers": others} if others else {})},
    }


def _name(seat: Seat) -> str:
    return f"node{seat.index + 1}"


def _etcd(seat: Seat) -> str:
    return f"{seat.host}:{seat.spare[0]}"


def _transport(seat: Seat) -> str:
    return f"{seat.host}:{seat.spare[1]}"


def _as_mapping(part: object) -> Mapping[str, object]:
    return part if isinstance(part, Mapping) else {}
