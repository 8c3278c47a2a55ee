"""Aedes, a broker for Node.js by the author of Mosca, and its heir. It has one thread.

Aedes is a library: aedes_server.mjs makes a broker of it. Stock is Aedes with its own defaults, in memory, and with
aedes-stats, of the same authors, which tells its counters once a second.

    lossless  a subscriber that does not read is waited for without end instead of being cut off after 60 s
              (drainTimeout); no limit of publications at QoS 2 in flight, where stock cuts off a publisher above
              1,000 (maxInflightInbound); and a longer queue before CONNACK (queueLimit, 42)
    tuned     1,000 messages at a time instead of 100 (concurrency), and no delay of small packets by the kernel

A cluster is several Aedes on one Redis (Debian's redis-server), beside the first of them, in memory and without a
password: by it they pass messages on and share sessions and retained messages. They have no counters then.

There is no durable preset: Aedes itself keeps everything in memory, and its stores on disk are other packages.
A subscriber of several QoS was seen to lose single messages at QoS 1 or 2. By its code Aedes drops as a duplicate what
comes to a client with a lower number than a message before it; that this was the cause is not proved.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from brokerlab.brokers.base import OPEN, Abilities, Count, Counter, Found, Group, Missing, Node, Seat, Security
from brokerlab.brokers.node_packages import find_package, server_node
from brokerlab.brokers.program import find_program
from brokerlab.brokers.seats import alone, of_seat
from brokerlab.brokers.source import Npm
from brokerlab.errors import UserError
from brokerlab.study.values import BrokerChoice, Transport

_VERSION = "1.2.0"
_ID = "brokerlab"  # its counters stand below it
_REDIS = "redis.conf"
_LATE_S = 1.0
_LONG_QUEUE = 65_535  # as many as one client has packet identifiers for
_OPTIONS: dict[str, dict[str, object]] = {
    "stock": {},
    "lossless": {"drainTimeout": 0, "maxInflightInbound": 0, "queueLimit": _LONG_QUEUE},
    "tuned": {"concurrency": 1_000},
}


class Aedes:
    name = "aedes"
    source = Npm(
        {
            "aedes": _VERSION,
            "aedes-persistence-redis": "11.2.2",
            "aedes-stats": "4.0.0",
            "mqemitter-redis": "7.2.1",
            "ws": "8.22.2",
        }
    )
    abilities = Abilities(
        protocols=("3.1", "3.1.1"),
        presets=tuple(_OPTIONS),
        transports=tuple(Transport),
        has_credentials=True,
        has_client_certificates=True,
        has_permissions=True,
        has_clusters=True,
        licence="MIT",
    )

    def find(self) -> Found | Missing:
        return find_package(self.name, "aedes", _VERSION)

    def node(self, choice: BrokerChoice, *, folder: Path, host: str, port: int, security: Security = OPEN) -> Node:
        stats = {"statsMs": int(_LATE_S * 1e3)}
        return self._node(choice, alone(folder, host, port, spare=0), security, name=_ID, more=stats)

    def cluster(self, choice: BrokerChoice, seats: Sequence[Seat], *, security: Security = OPEN) -> Group:
        store = seats[0]
        redis = {"host": store.host, "port": store.spare[0]}
        return Group(
            tuple(
                self._node(choice, seat, of_seat(security, seat), name=f"{_ID}-{seat.index}", more={"redis": redis})
                for seat in seats
            ),
            servers=(_redis(choice, store),),
        )

    def _node(
        self, choice: BrokerChoice, seat: Seat, security: Security, *, name: str, more: Mapping[str, object]
    ) -> Node:
        own = {
            "options": _OPTIONS.get(choice.preset, {}) | {"id": name},
            "noDelay": choice.preset == "tuned",
            **more,
        }
        return server_node(self, choice, "aedes_server.mjs", seat, security, own)

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


def _redis(choice: BrokerChoice, seat: Seat) -> Node:
    program = find_program("redis-server")
    if program is None:
        raise UserError(
            f"broker {choice.name}: a cluster of Aedes needs Redis, and redis-server is not here",
            hint="apt-get install redis-server",
        )
    port = seat.spare[0]
    lines = (f"bind {seat.host}", f"port {port}", "protected-mode no", 'save ""', "appendonly no")
    return Node(
        argv=(program, _REDIS),  # in the folder that it is started in
        host=seat.host,
        port=port,
        files={_REDIS: "\n".join(lines) + "\n"},
    )
