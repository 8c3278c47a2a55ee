"""Mosca, a broker for Node.js that nobody maintains any more (2020); Aedes is its heir. It has one thread.

Mosca is a library: mosca_server.cjs makes a broker of it. Stock is what its command does without options: sessions
and retained messages in memory, its counters below $SYS (every second beside every 10 s, or each run would wait for
them), and there too a message for every client that comes, goes or subscribes.

    lossless  65,535 messages in flight for a subscriber instead of 1,024, above which Mosca ends its connection
    tuned     no messages below $SYS about clients

There is no durable preset: the store on disk of this version needs a library that does not build for today's Node.js.
Mosca has no QoS 2: it grants 1, and a publication at QoS 2 is delivered but never acknowledged.
"""

from pathlib import Path

from brokerlab.brokers.base import OPEN, Abilities, Count, Counter, Departure, Found, Missing, Node, Security
from brokerlab.brokers.node_packages import find_package, server_node
from brokerlab.brokers.seats import alone
from brokerlab.brokers.source import Npm
from brokerlab.study.values import BrokerChoice, Qos, Transport

_VERSION = "2.8.3"
_ID = "brokerlab"  # its counters stand below it
_LATE_S = 1.0
_OPTIONS: dict[str, dict[str, object]] = {
    "stock": {},
    "lossless": {"maxInflightMessages": 65_535},
    "tuned": {"publishNewClient": False, "publishClientDisconnect": False, "publishSubscriptions": False},
}


class Mosca:
    name = "mosca"
    source = Npm({"mosca": _VERSION}, overrides={"jsonschema": "1.2.6"})  # 1.5 refuses Mosca's own schema
    abilities = Abilities(
        qos=(Qos.AT_MOST_ONCE, Qos.AT_LEAST_ONCE),
        protocols=("3.1", "3.1.1"),
        presets=tuple(_OPTIONS),
        transports=tuple(Transport),
        has_credentials=True,
        has_client_certificates=True,
        has_permissions=True,
        departs=(Departure.RAISES_QOS, Departure.NO_RETAIN_FLAG, Departure.CLOSES_AT_SUBSCRIBE),
        licence="MIT",
    )

    def find(self) -> Found | Missing:
        return find_package(self.name, "mosca", _VERSION)

    def node(self, choice: BrokerChoice, *, folder: Path, host: str, port: int, security: Security = OPEN) -> Node:
        options = _OPTIONS.get(choice.preset, {}) | {"id": _ID, "stats": True}
        more = {"options": options, "statsMs": int(_LATE_S * 1e3)}
        return server_node(self, choice, "mosca_server.cjs", alone(folder, host, port, spare=0), security, more)

    def counters(self) -> tuple[Counter, ...]:
        return (
            Counter(f"$SYS/{_ID}/publish/received", Count.RECEIVED, is_exact=True, late_s=_LATE_S),
            Counter(f"$SYS/{_ID}/clients/connected", Count.CONNECTIONS, late_s=_LATE_S),
        )
