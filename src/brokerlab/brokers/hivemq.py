"""HiveMQ Community Edition, a broker in Java, in its embedded form: the other one is in no registry that we use.

Stock is HiveMQ's own configuration, but for what a run needs:

    listener            the address, and what it speaks; HiveMQ has none where the configuration names none
    usage statistics    off, so that it reports to nobody
    heap                1 GiB at most, because the embedded form comes without a script that says it

Its messages lie on disk (RocksDB), at most 1000 for a client, whether that is connected or not; what comes above is
dropped in silence. At QoS 0 at most 5 MiB wait for a client.

    lossless    10 million messages and 512 MiB at QoS 0 for each client, and 4 GiB of heap to hold them
    tuned       messages in memory only, for which HiveMQ has a mode of its own, and 4 GiB of heap

There is no `durable`: stock writes to disk already, and no setting makes it wait for the disk.
Passwords and permissions HiveMQ leaves to extensions; the launcher brings one.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from xml.sax.saxutils import escape

from brokerlab.brokers import java
from brokerlab.brokers.base import OPEN, Abilities, Count, Counter, Found, Missing, Node, Security
from brokerlab.brokers.choice import check_choice
from brokerlab.brokers.seats import alone
from brokerlab.brokers.source import Maven
from brokerlab.brokers.telling import prometheus
from brokerlab.study.values import BrokerChoice, Transport

_VERSION = "2025.5"
_DATA = "data"
_MOST_QUEUED = {"lossless": 10_000_000}
_MOST_QOS_0_BYTES = {"lossless": 512 << 20}
_HEAP_MIB = {"lossless": 4096, "tuned": 4096}
_STOCK_HEAP_MIB = 1024
_LISTENERS = {
    Transport.TCP: "tcp-listener",
    Transport.TLS: "tls-tcp-listener",
    Transport.WS: "websocket-listener",
    Transport.WSS: "tls-websocket-listener",
}


class HiveMq:
    name = "hivemq"
    source = Maven(
        (f"com.hivemq:hivemq-community-edition-embedded:{_VERSION}",), launcher=java.LAUNCHERS / "HiveMq.java"
    )
    abilities = Abilities(
        protocols=("3.1", "3.1.1", "5.0"),
        presets=("stock", "lossless", "tuned"),
        options=("heap_mib",),
        transports=tuple(Transport),
        has_credentials=True,
        has_client_certificates=True,
        has_shared_subscriptions=True,
        has_permissions=True,
        is_scalable=True,
        licence="Apache-2.0",
    )

    def find(self) -> Found | Missing:
        return java.find_broker(self.name, "classes/HiveMq.class", version=_VERSION)

    def node(self, choice: BrokerChoice, *, folder: Path, host: str, port: int, security: Security = OPEN) -> Node:
        check_choice(choice, self.abilities, security)
        program, place = java.require(choice, self.find())
        seat = alone(folder, host, port)
        here, page = seat.folder, f"{host}:{seat.spare[0]}"
        files = {"config.xml": "\n".join(_config(choice.preset, host, port, security)) + "\n"}
        secrets = java.stores(security)
        properties = {"page": page}
        if security.users:
            passwords = java.private(security) / "hivemq.users"
            secrets[passwords] = java.words(*security.users.items())
            properties["users"] = str(passwords)
        if rules := _rules(security):
            files["rules"] = java.words(*rules)
            properties["rules"] = str(here / "rules")
        if most := _MOST_QOS_0_BYTES.get(choice.preset):
            properties["qos0Bytes"] = str(most)
        most_mib = _HEAP_MIB.get(choice.preset, _STOCK_HEAP_MIB)
        return java.node(
            (
                str(program),
                *java.options(choice, folder=here, first_mib=min(most_mib, 256), most_mib=most_mib),
                *(f"-Dbrokerlab.{name}={value}" for name, value in properties.items()),
                "-cp",
                f"{place / 'classes'}:{place / 'lib'}/*",
                "HiveMq",
                str(here),
                str(here / _DATA),
            ),
            seat,
            files=files,
            secrets=secrets,
            scratch=(_DATA,),
            page=page,
        )

    def counters(self) -> tuple[Counter, ...]:
        """Of its own metrics."""
        return (
            Counter("com_hivemq_messages_incoming_publish_count", Count.RECEIVED, is_exact=True),
            Counter("com_hivemq_messages_outgoing_publish_count", Count.SENT, is_exact=True),
            Counter("com_hivemq_messages_dropped_count", Count.DROPPED, is_exact=True),
            Counter("com_hivemq_networking_connections_current", Count.CONNECTIONS),
            Counter("com_hivemq_subscriptions_overall_current", Count.SUBSCRIPTIONS),
            Counter("com_hivemq_messages_retained_current", Count.RETAINED),
        )

    def read_page(self, text: str) -> Mapping[str, float]:
        return prometheus(text)


def _rules(security: Security) -> list[tuple[str, str]]:
    return [("read", each) for each in security.readable] + [("write", each) for each in security.writable]


def _config(preset: str, host: str, port: int, security: Security) -> Iterator[str]:
    listener = _LISTENERS[security.transport]
    yield "<hivemq>"
    yield f"  <listeners><{listener}>"
    yield f"    <port>{port}</port><bind-address>{host}</bind-address>"
    if security.transport.is_framed:
        yield "    <path>/mqtt</path>"
        yield "    <subprotocols><subprotocol>mqtt</subprotocol><subprotocol>mqttv3.1</subprotocol></subprotocols>"
    if security.transport.is_encrypted:
        yield from _tls(security)
    yield f"  </{listener}></listeners>"
    if queued := _MOST_QUEUED.get(preset):
        yield f"  <mqtt><queued-messages><max-queue-size>{queued}</max-queue-size></queued-messages></mqtt>"
    yield f"  <persistence><mode>{'in-memory' if preset == 'tuned' else 'file'}</mode></persistence>"
    yield "  <anonymous-usage-statistics><enabled>false</enabled></anonymous-usage-statistics>"
    yield "</hivemq>"


def _tls(security: Security) -> Iterator[str]:
    password = f"<password>{java.STORE_PASSWORD}</password>"
    keys, trusted = escape(str(java.key_store_path(security))), escape(str(java.trust_store_path(security)))
    yield f"    <tls><keystore><path>{keys}</path>{password}"
    yield f"      <private-key-password>{java.STORE_PASSWORD}</private-key-password></keystore>"
    if security.authority:
        yield f"      <truststore><path>{trusted}</path>{password}</truststore>"
        yield "      <client-authentication-mode>REQUIRED</client-authentication-mode>"
    yield "    </tls>"
