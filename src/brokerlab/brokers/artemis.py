"""Apache Artemis, a broker in Java with a journal on disk.

Stock is what `artemis create` writes, but for what a run needs:

    acceptor            one, for MQTT at the address of the run; WebSocket it understands at the same port
    security            off, unless there are user names
    journal             NIO, where `artemis create` would take libaio if the machine has it
    web console         left out
    log                 without the audit, which is a line for every connection and session

It keeps in a journal, written through to the disk, what is published at QoS 1 and 2; above half of the heap it pages
to disk. While it does so it does not keep the order of messages at QoS 1.

    lossless    as stock, which drops nothing, but a message may be tried again for ever instead of ten times
    durable     as stock, and what is paged is written through to the disk too
    tuned       no journal, and 4 GiB of heap

A cluster has static connectors, in bare TCP, and hands messages on where there are subscribers (ON_DEMAND), as
`artemis create --clustered` writes it. Each node has its own retained messages.
"""

import secrets as random
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

from brokerlab.brokers import java
from brokerlab.brokers.base import (
    OPEN,
    Abilities,
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
from brokerlab.brokers.choice import check_choice
from brokerlab.brokers.seats import alone, of_seat
from brokerlab.brokers.source import Archive
from brokerlab.brokers.telling import prometheus
from brokerlab.errors import UserError
from brokerlab.study.topics import topic_matches
from brokerlab.study.values import BrokerChoice, Transport

_VERSION = "2.56.0"
_ARTIFACT = f"org.apache.artemis:apache-artemis:{_VERSION}:tar.gz:bin"
_INSTANCE = "instance"
_BOOT = "dist/lib/artemis-boot.jar"
_USERS = "artemis-users.properties"
_ROLES = "artemis-roles.properties"
_ROLE = "users"
_NODES = "artemis-nodes.properties"
_NODE_USER = "brokerlab"
_HEAP_MIB = {"tuned": 4096}
_STOCK_HEAP_MIB = 2048
_QUEUES = (
    "createAddress",
    "deleteAddress",
    "createDurableQueue",
    "deleteDurableQueue",
    "createNonDurableQueue",
    "deleteNonDurableQueue",
    "browse",
)

_BOOTSTRAP = """\
<broker xmlns="http://activemq.apache.org/schema">
  <jaas-security domain="activemq"/>
  <server configuration="file:{folder}/broker.xml"/>
</broker>
"""

_MANAGEMENT = '<management-context xmlns="http://activemq.apache.org/schema"/>\n'

_LOG = """\
rootLogger.level=INFO
rootLogger.appenderRef.out.ref=out
logger.audit.name=org.apache.activemq.audit
logger.audit.level=OFF
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d %-5level [%logger] %msg%n
"""

_LOGIN = """\
activemq {{
  org.apache.activemq.artemis.spi.core.security.jaas.PropertiesLoginModule required
  baseDir="{folder}"
  org.apache.activemq.jaas.properties.user="{users}"
  org.apache.activemq.jaas.properties.role="{roles}";
}};
"""


class Artemis:
    name = "artemis"
    source = Archive(
        f"org.apache.artemis:apache-artemis:{_VERSION}:tar.gz:bin", launcher=java.LAUNCHERS / "Artemis.java"
    )
    abilities = Abilities(
        protocols=("3.1", "3.1.1", "5.0"),
        presets=("stock", "lossless", "durable", "tuned"),
        options=("heap_mib",),
        transports=tuple(Transport),
        has_credentials=True,
        has_client_certificates=True,
        has_shared_subscriptions=True,
        has_permissions=True,
        has_clusters=True,
        is_scalable=True,
        departs=(Departure.DISORDERS_QOS_1,),
        licence="Apache-2.0",
    )

    def find(self) -> Found | Missing:
        return java.find_broker(self.name, _BOOT, "classes/Artemis.class", version=_VERSION)

    def node(self, choice: BrokerChoice, *, folder: Path, host: str, port: int, security: Security = OPEN) -> Node:
        return self._node(choice, alone(folder, host, port), security)

    def cluster(self, choice: BrokerChoice, seats: Sequence[Seat], *, security: Security = OPEN) -> Group:
        """With a password among the nodes where clients need one."""
        password = random.token_hex(16)
        return Group(
            tuple(
                self._node(choice, seat, of_seat(security, seat), list(_cluster(seat, seats)), password)
                for seat in seats
            )
        )

    def _node(
        self, choice: BrokerChoice, seat: Seat, security: Security, cluster: Sequence[str] = (), password: str = ""
    ) -> Node:
        check_choice(choice, self.abilities, security)
        program, place = java.require(choice, self.find())
        here = seat.folder
        files = {
            "bootstrap.xml": _BOOTSTRAP.format(folder=escape(str(here))),
            "broker.xml": "\n".join(_broker(choice, seat, security, cluster)) + "\n",
            "management.xml": _MANAGEMENT,
            "log4j2.properties": _LOG,
        }
        secrets = java.stores(security)
        more: tuple[str, ...] = ()
        if security.users:
            private = java.private(security)
            files["login.config"] = _LOGIN.format(folder=private, users=_USERS, roles=_ROLES)
            secrets[private / _USERS] = java.properties(security.users)
            secrets[private / _ROLES] = java.properties({_ROLE: ",".join(security.users)})
            if cluster:
                secrets[private / _NODES] = java.properties({"clusterUser": _NODE_USER, "clusterPassword": password})
                more = ("--properties", str(private / _NODES))
        page = f"{seat.host}:{seat.spare[0]}"
        most_mib = _HEAP_MIB.get(choice.preset, _STOCK_HEAP_MIB)
        return java.node(
            (
                str(program),
                *java.options(choice, folder=here, first_mib=512, most_mib=most_mib),
                *("--add-opens", "java.base/jdk.internal.misc=ALL-UNNAMED"),
                f"-Dlog4j2.configurationFile=file:{here}/log4j2.properties",
                "-Dlog4j2.disableJmx=true",
                f"-Djava.security.auth.login.config={here}/login.config",
                f"-Dartemis.home={place / 'dist'}",
                f"-Dartemis.instance={here / _INSTANCE}",
                f"-Dartemis.instance.etc={here}",
                f"-Ddata.dir={here / _INSTANCE}/data",
                f"-Dbrokerlab.page={page}",
                *("-cp", f"{place / 'classes'}:{place / _BOOT}", "Artemis", "run", *more),
            ),
            seat,
            files=files,
            secrets=secrets,
            scratch=(_INSTANCE,),
            page=page,
        )

    def counters(self) -> tuple[Counter, ...]:
        """What its management says, summed over the addresses and the queues that there are now."""
        return (
            Counter("RoutedMessageCount", Count.RECEIVED, note="without what nobody had subscribed to"),
            Counter("MessagesAcknowledged", Count.SENT, note="of the subscriptions that there are now"),
            Counter("ConnectionCount", Count.CONNECTIONS),
            Counter("TotalConsumerCount", Count.SUBSCRIPTIONS),
            Counter("MessageCount", Count.QUEUED),
        )

    def read_page(self, text: str) -> Mapping[str, float]:
        return prometheus(text)


def _broker(choice: BrokerChoice, seat: Seat, security: Security, cluster: Sequence[str]) -> Iterator[str]:
    preset = choice.preset
    yield '<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">'
    yield "  <name>brokerlab</name>"
    yield f"  <persistence-enabled>{_word(preset != 'tuned')}</persistence-enabled>"
    yield f"  <security-enabled>{_word(bool(security.users))}</security-enabled>"
    yield "  <journal-type>NIO</journal-type>"
    yield "  <journal-datasync>true</journal-datasync>"
    for what in ("paging", "bindings", "journal", "large-messages"):
        yield f"  <{what}-directory>${{data.dir}}/{what}</{what}-directory>"
    if preset == "durable":
        yield "  <page-sync-timeout>0</page-sync-timeout>"
    yield "  <max-disk-usage>99</max-disk-usage>"
    yield "  <acceptors>"
    yield f'    <acceptor name="mqtt">{escape(_acceptor(seat.host, seat.port, security))}</acceptor>'
    if cluster:
        yield f'    <acceptor name="nodes">{_core(seat)}?protocols=CORE</acceptor>'
    yield "  </acceptors>"
    yield from cluster
    if security.users:
        yield "  <security-settings>"
        yield from _permissions(choice, security)
        yield "  </security-settings>"
    yield '  <address-settings><address-setting match="#">'
    yield "    <address-full-policy>PAGE</address-full-policy>"
    if cluster:
        yield "    <redistribution-delay>0</redistribution-delay>"
    if preset == "lossless":
        yield "    <max-delivery-attempts>-1</max-delivery-attempts>"
    yield "  </address-setting></address-settings>"
    yield "</core></configuration>"


def _cluster(seat: Seat, seats: Sequence[Seat]) -> Iterator[str]:
    """Where the nodes are, and what goes between them."""
    yield "  <connectors>"
    yield from (f'    <connector name="node-{each.index}">{_core(each)}</connector>' for each in seats)
    yield "  </connectors>"
    yield '  <cluster-connections><cluster-connection name="brokerlab">'
    yield f"    <connector-ref>node-{seat.index}</connector-ref>"
    yield "    <message-load-balancing>ON_DEMAND</message-load-balancing>"
    yield "    <max-hops>1</max-hops>"
    yield "    <static-connectors>"
    yield from (f"      <connector-ref>node-{each.index}</connector-ref>" for each in seats if each != seat)
    yield "    </static-connectors>"
    yield "  </cluster-connection></cluster-connections>"


def _core(seat: Seat) -> str:
    """Where a node listens for the others."""
    return f"tcp://{seat.host}:{seat.spare[1]}"


def _acceptor(host: str, port: int, security: Security) -> str:
    """The listener; MQTT and WebSocket are told apart by what the client sends first."""
    settings = ["protocols=MQTT", "useEpoll=true", "tcpSendBufferSize=1048576", "tcpReceiveBufferSize=1048576"]
    if security.transport.is_encrypted:
        settings += [
            "sslEnabled=true",
            f"keyStorePath={java.key_store_path(security)}",
            "keyStoreType=PKCS12",
            f"keyStorePassword={java.STORE_PASSWORD}",
        ]
        if security.authority:
            settings += [
                "needClientAuth=true",
                f"trustStorePath={java.trust_store_path(security)}",
                "trustStoreType=PKCS12",
                f"trustStorePassword={java.STORE_PASSWORD}",
            ]
    return f"tcp://{host}:{port}?" + ";".join(settings)


def _permissions(choice: BrokerChoice, security: Security) -> Iterator[str]:
    """Who may send and consume where; of the settings that match an address Artemis takes the closest alone."""
    filters = {*security.readable, *security.writable}
    if not filters:
        yield from _setting("#", is_readable=True, is_writable=True)
        return
    yield from _setting("#", is_readable="#" in security.readable, is_writable="#" in security.writable)
    for each in sorted(filters - {"#"}):
        yield from _setting(
            _address(choice, each),
            is_readable=any(_covers(wider, each) for wider in security.readable),
            is_writable=any(_covers(wider, each) for wider in security.writable),
        )


def _setting(match: str, *, is_readable: bool, is_writable: bool) -> Iterator[str]:
    types = (*_QUEUES, *(["consume"] if is_readable else []), *(["send"] if is_writable else []))
    yield f"    <security-setting match={quoteattr(match)}>"
    yield from (f'      <permission type="{each}" roles="{_ROLE}"/>' for each in types)
    yield "    </security-setting>"


def _covers(wider: str, narrower: str) -> bool:
    """Whether all that the second filter matches is matched by the first one too."""
    if narrower.endswith("#") and not wider.endswith("#"):
        return False
    return topic_matches(wider, narrower)


def _address(choice: BrokerChoice, topic_filter: str) -> str:
    """A filter in Artemis's own words, where levels are parted by dots."""
    if "." in topic_filter:
        raise UserError(f"broker {choice.name}: Artemis has no permissions for topics with dots, as {topic_filter!r}")
    return topic_filter.replace("/", ".").replace("+", "*")


def _word(is_on: bool) -> str:
    return "true" if is_on else "false"
