"""Aedes, a broker for Node.js by the author of Mosca, and its heir. It has one thread.

Aedes is a library: aedes_server.mjs makes a broker of it. Stock is Aedes with its own defaults, in memory, and with
aedes-stats, of the same authors, which tells its counters once a second.

    lossless  a subscriber that does not read is waited for without end instead of being cut off after 60 s
              (drainTimeout); no limit of publications at QoS 2 in flight, where stock cuts off a publisher above
              1,000 (maxInflightInbound); and a longer queue before CONNACK (queueLimit, 42)
    tuned     1,000 messages at a time instead of 100 (concurrency), and no delay of small packets by the kernel

There is no durable preset: Aedes itself keeps everything in memory, and its stores on disk are other packages.
A subscriber of several QoS can lose a message at QoS 1 or 2 that one at QoS 0 overtook inside Aedes: it takes
what comes out of turn for a duplicate.
"""

from pathlib import Path

from brokerlab.brokers.base import OPEN, Abilities, Count, Counter, Found, Missing, Node, Security
from brokerlab.brokers.choice import check_choice
from brokerlab.brokers.node_packages import find_package, server_node
from brokerlab.brokers.source import Npm
from brokerlab.errors import UserError
from brokerlab.study.values import BrokerChoice, Transport

_VERSION = "1.2.0"
_ID = "brokerlab"  # its counters stand below it
_LATE_S = 1.0
_LONG_QUEUE = 65_535  # as many as one client has packet identifiers for
_OPTIONS: dict[str, dict[str, object]] = {
    "stock": {},
    "lossless": {"drainTimeout": 0, "maxInflightInbound": 0, "queueLimit": _LONG_QUEUE},
    "tuned": {"concurrency": 1_000},
}


class Aedes:
    name = "aedes"
    source = Npm({"aedes": _VERSION, "aedes-stats": "4.0.0", "ws": "8.22.2"})
    abilities = Abilities(
        protocols=("3.1", "3.1.1"),
        presets=tuple(_OPTIONS),
        transports=tuple(Transport),
        has_credentials=True,
        has_client_certificates=True,
        has_permissions=True,
        licence="MIT",
    )

    def find(self) -> Found | Missing:
        return find_package(self.name, "aedes", _VERSION)

    def node(self, choice: BrokerChoice, *, folder: Path, host: str, port: int, security: Security = OPEN) -> Node:
        check_choice(choice, self.abilities, security)
        found = self.find()
        if isinstance(found, Missing):
            raise UserError(f"broker {choice.name}: {found.reason}", hint=found.hint)
        more = {
            "options": _OPTIONS[choice.preset] | {"id": _ID},
            "noDelay": choice.preset == "tuned",
            "statsMs": int(_LATE_S * 1e3),
        }
        return server_node(
            found, "aedes_server.mjs", host=host, port=port, security=security, folder=folder, more=more
        )  # fmt: skip

    def counters(self) -> tuple[Counter, ...]:
        return (
            Counter(
                f"$SYS/{_ID}/messages/publish/sent",
                Count.RECEIVED,
                is_exact=True,
                late_s=_LATE_S,
                note="its name says sent, and it counts what clients published",
            ),
            Counter(f"$SYS/{_ID}/clients/total", Count.CONNECTIONS, late_s=_LATE_S),
        )
