"""Apache ActiveMQ Classic, a broker in Java: version 6 from its jars, and 5.17 from Debian's packages.

The tarball of version 6 is in no registry that we use. Stock is what Debian configures for its own: KahaDB on disk,
written through for every message that is to be kept, and no limit of what waits for a subscriber. Besides:

    transport connector     the one for MQTT at the address of the run, and none for its own protocol
    scheduler, JMX          off, as in Debian's
    heap                    1 GiB at most, as its own script says; the broker takes 70 % of that for messages

A publisher is slowed down when that is full. Nothing of what waits is dropped: so `lossless` is stock with more heap,
and `durable` is stock with its disk policy written out.

    lossless    4 GiB of heap
    durable     every message that is to be kept is on disk before it is acknowledged
    tuned       nothing is kept on disk, threads are shared between connections (NIO), and 4 GiB of heap

A cluster is a network of brokers: each node opens a connection, in bare TCP, to every other, and sends over it what
the other has subscribers for, but nothing on that came from a third node (networkTTL 1). A connection that both use
(duplex) would be half as many; now and then its second way carries nothing, for good.

6.3.1 refuses packets of 2 MiB and more, which 6.1.7 takes. Its MQTT over WebSocket needs a web server of its own,
which is not in the registry for 6.3.1, so there is none here.
"""

import secrets as random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from xml.sax.saxutils import quoteattr

from brokerlab.brokers import java
from brokerlab.brokers.base import OPEN, Abilities, Count, Counter, Found, Group, Missing, Node, Seat, Security
from brokerlab.brokers.cache import how_to_install
from brokerlab.brokers.choice import check_choice
from brokerlab.brokers.seats import alone, of_seat
from brokerlab.brokers.source import Debian, Maven, Source
from brokerlab.brokers.telling import prometheus
from brokerlab.errors import UserError
from brokerlab.study.values import BrokerChoice, Transport

_FIRST = "6.3.1"
_SPRING = {"6.3.1": "7.0.8", "6.1.7": "6.1.21"}  # the one that each is built with
_DEBIAN = "5.17"
_HOME = Path("/usr/share/activemq")
_JARS = Path("/usr/share/java")
# What MQTT needs beside the package activemq, which does not ask for it.
_MQTT_JARS = ("mqtt-client.jar", "hawtdispatch.jar", "hawtdispatch-transport.jar", "hawtbuf.jar")
_OPENED = ("java.lang", "java.util", "java.util.concurrent", "java.util.concurrent.atomic", "java.net", "java.security")
_DATA = "data"
_USERS = "users.properties"
_GROUPS = "groups.properties"
_GROUP = "users"
_NODES = "nodes"  # the user of the other nodes, its group, and where they connect
_NETWORK = "network.properties"
_HEAP_MIB = {"lossless": 4096, "tuned": 4096}
_STOCK_HEAP_MIB = 1024

_SPRING_BEANS = "http://www.springframework.org/schema/beans"
_CORE = "http://activemq.apache.org/schema/core"
_BEANS = f"""\
<beans xmlns="{_SPRING_BEANS}" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
       xsi:schemaLocation="{_SPRING_BEANS} {_SPRING_BEANS}/spring-beans.xsd {_CORE} {_CORE}/activemq-core.xsd">"""

_LOG = """\
rootLogger.level=INFO
rootLogger.appenderRef.out.ref=out
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d %-5level [%logger] %msg%n
"""

_LOG_BEFORE_6 = """\
log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %-5p [%c] %m%n
"""

_LOGIN = """\
activemq {{
  org.apache.activemq.jaas.PropertiesLoginModule required
  baseDir="{folder}"
  org.apache.activemq.jaas.properties.user="{users}"
  org.apache.activemq.jaas.properties.group="{groups}";
}};
"""


_ABILITIES = Abilities(
    protocols=("3.1", "3.1.1"),
    presets=("stock", "lossless", "durable", "tuned"),
    options=("heap_mib",),
    transports=(Transport.TCP, Transport.TLS),
    has_credentials=True,
    has_client_certificates=True,
    has_permissions=True,
    has_clusters=True,
    is_scalable=True,
    licence="Apache-2.0",
)


@dataclass(frozen=True, slots=True)
class _Network:
    """Of the nodes of a cluster: which of them this one connects to, and as whom."""

    others: tuple[Seat, ...]
    password: str = field(repr=False)


class ActiveMq:
    """Version 6, started by a launcher of ours, which also has a page with its counters."""

    abilities = _ABILITIES

    def __init__(self, version: str = _FIRST) -> None:
        self._version = version
        self.name = "activemq" if version == _FIRST else f"activemq@{version}"

    @property
    def source(self) -> Source:
        modules = ("broker", "mqtt", "kahadb-store", "jaas", "spring")
        return Maven(
            (
                *(f"org.apache.activemq:activemq-{module}:{self._version}" for module in modules),
                f"org.springframework:spring-context:{_SPRING[self._version]}",
                "org.apache.logging.log4j:log4j-slf4j2-impl:2.24.3",
            ),
            launcher=java.LAUNCHERS / "ActiveMq.java",
        )

    def find(self) -> Found | Missing:
        return java.find_broker(self.name, "classes/ActiveMq.class", version=self._version)

    def node(self, choice: BrokerChoice, *, folder: Path, host: str, port: int, security: Security = OPEN) -> Node:
        return self._node(choice, alone(folder, host, port), security)

    def cluster(self, choice: BrokerChoice, seats: Sequence[Seat], *, security: Security = OPEN) -> Group:
        networks = _networks(seats)
        return Group(tuple(self._node(choice, seat, of_seat(security, seat), networks[seat.index]) for seat in seats))

    def members(self, node: Node) -> int | None:
        return java.members_on(node.page)

    def _node(self, choice: BrokerChoice, seat: Seat, security: Security, network: _Network | None = None) -> Node:
        check_choice(choice, self.abilities, security)
        program, place = java.require(choice, self.find())
        page = f"{seat.host}:{seat.spare[0]}"
        node = _node(choice, seat, security, network)
        return replace(
            node,
            argv=(str(program), *node.argv, *_argv(place, seat.folder, page)),
            files={**node.files, "log4j2.properties": _LOG},
            page=f"http://{page}/metrics",
        )

    def counters(self) -> tuple[Counter, ...]:
        """Summed over all topics but its own."""
        return (
            Counter("enqueues", Count.RECEIVED, is_exact=True),
            Counter("dispatched", Count.SENT, is_exact=True),
            Counter("connections", Count.CONNECTIONS),
            Counter("consumers", Count.SUBSCRIPTIONS),
            Counter("inflight", Count.QUEUED, note="sent to a subscriber and not yet acknowledged"),
        )

    def read_page(self, text: str) -> Mapping[str, float]:
        return prometheus(text)


class ActiveMqOfDebian:
    """Version 5.17, started by the program that it comes with; it tells no counters but by JMX."""

    name = f"activemq@{_DEBIAN}"
    source = Debian(("activemq", "libmqtt-client-java"))
    abilities = _ABILITIES

    def find(self) -> Found | Missing:
        if java.find_java() is None:
            return Missing(f"there is no Java {java.OLDEST_JAVA} or newer", hint=java.JAVA_HINT)
        for needed in (_HOME / "lib" / "activemq-broker.jar", *(_JARS / jar for jar in _MQTT_JARS)):
            if not needed.exists():
                return Missing(f"{needed} is not there", hint=how_to_install(self.name))
        return Found(str(_HOME), _debian_version())

    def node(self, choice: BrokerChoice, *, folder: Path, host: str, port: int, security: Security = OPEN) -> Node:
        return self._node(choice, alone(folder, host, port, spare=0), security)

    def cluster(self, choice: BrokerChoice, seats: Sequence[Seat], *, security: Security = OPEN) -> Group:
        networks = _networks(seats)
        return Group(tuple(self._node(choice, seat, of_seat(security, seat), networks[seat.index]) for seat in seats))

    def _node(self, choice: BrokerChoice, seat: Seat, security: Security, network: _Network | None = None) -> Node:
        check_choice(choice, self.abilities, security)
        program, _ = java.require(choice, self.find())
        node = _node(choice, seat, security, network)
        return replace(
            node,
            argv=(str(program), *node.argv, *_debian_argv(seat.folder)),
            files={**node.files, "log4j.properties": _LOG_BEFORE_6},
        )


def _networks(seats: Sequence[Seat]) -> tuple[_Network, ...]:
    """By seat."""
    password = random.token_hex(16)
    return tuple(_Network(tuple(other for other in seats if other is not seat), password) for seat in seats)


def _node(choice: BrokerChoice, seat: Seat, security: Security, network: _Network | None) -> Node:
    """What is alike in all versions; of the arguments the first ones."""
    here = seat.folder
    files = {"activemq.xml": "\n".join(_config(choice, seat, security, network)) + "\n"}
    secrets = java.stores(security)
    if security.users:
        private = java.private(security)
        files["login.config"] = _LOGIN.format(folder=private, users=_USERS, groups=_GROUPS)
        groups, passwords = {_GROUP: ",".join(security.users)}, dict(security.users)
        if network:
            groups[_NODES], passwords[_NODES] = _NODES, network.password
            secrets[private / _NETWORK] = java.properties({"password": network.password})
        secrets[private / _USERS] = java.properties(passwords)
        secrets[private / _GROUPS] = java.properties(groups)
    return java.node(
        (
            *java.options(choice, folder=here, first_mib=64, most_mib=_HEAP_MIB.get(choice.preset, _STOCK_HEAP_MIB)),
            f"-Djava.security.auth.login.config={here}/login.config",
        ),
        seat,
        files=files,
        secrets=secrets,
        scratch=(_DATA,),
    )


def _argv(place: Path, here: Path, page: str) -> tuple[str, ...]:
    return (
        f"-Dbrokerlab.page={page}",
        f"-Dlog4j2.configurationFile=file:{here}/log4j2.properties",
        "-Dlog4j2.disableJmx=true",
        *("-cp", f"{place / 'classes'}:{place / 'lib'}/*"),
        *("ActiveMq", str(here / "activemq.xml")),
    )


def _debian_argv(here: Path) -> tuple[str, ...]:
    """Without Debian's script, which would run it as another user, and as the one instance of this machine."""
    jars = (f"{_HOME}/lib/*", f"{_HOME}/lib/optional/*", *(str(_JARS / jar) for jar in _MQTT_JARS))
    return (
        *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
        f"-Dlog4j.configuration=file:{here}/log4j.properties",
        f"-Dactivemq.home={_HOME}",
        f"-Dactivemq.base={here}",
        *("-cp", ":".join(jars)),
        *("org.apache.activemq.console.Main", "--noDefExt", "start", f"xbean:file:{here}/activemq.xml"),
    )


def _debian_version() -> str:
    """Told by a link beside the jar, which Debian names with the version."""
    named = [path.stem.removeprefix("activemq-broker-") for path in _JARS.glob("activemq-broker-*.jar")]
    return named[0] if named else _DEBIAN


def _config(choice: BrokerChoice, seat: Seat, security: Security, network: _Network | None) -> Iterator[str]:
    is_kept = choice.preset != "tuned"
    data = seat.folder / _DATA
    yield _BEANS  # the schemas are parts of the jars; they want all below in alphabetical order
    if network and security.users:
        yield '  <bean class="org.springframework.context.support.PropertySourcesPlaceholderConfigurer">'
        yield f'    <property name="location" value={quoteattr(f"file:{java.private(security) / _NETWORK}")}/></bean>'
    yield f'  <broker xmlns="{_CORE}" brokerName="brokerlab-{seat.index}" useJmx="false"'
    yield f'          persistent="{_word(is_kept)}" dataDirectory={quoteattr(str(data))}>'
    if network and network.others:
        yield from _connectors(network, security)
    if is_kept:
        policy = ' journalDiskSyncStrategy="always"' if choice.preset == "durable" else ""
        yield f"    <persistenceAdapter><kahaDB directory={quoteattr(str(data / 'kahadb'))}{policy}/>"
        yield "    </persistenceAdapter>"
    if security.users:
        yield '    <plugins><jaasAuthenticationPlugin configuration="activemq"/>'
        yield from _permissions(choice, security)
        yield "    </plugins>"
    if security.transport.is_encrypted:
        yield from _tls(security)
    yield "    <transportConnectors>"
    uri = _uri(choice.preset, seat.host, seat.port, security)
    yield f'      <transportConnector name="mqtt" uri={quoteattr(uri)}/>'
    if network:
        yield f'      <transportConnector name="{_NODES}" uri="{_openwire(seat)}"/>'
    yield "    </transportConnectors>"
    yield "  </broker>"
    yield "</beans>"


def _connectors(network: _Network, security: Security) -> Iterator[str]:
    """To the other nodes; until one is there, it is asked for every half second."""
    login = f' userName="{_NODES}" password="${{password}}"' if security.users else ""
    yield "    <networkConnectors>"
    for other in network.others:
        uri = f"static:({_openwire(other)})?initialReconnectDelay=500&useExponentialBackOff=false"
        yield f'      <networkConnector name="node-{other.index}" uri={quoteattr(uri)}'
        yield f'                        networkTTL="1"{login}'
        # Otherwise the first of three nodes sends nothing to the third.
        yield '                        suppressDuplicateTopicSubscriptions="false"/>'
    yield "    </networkConnectors>"


def _openwire(seat: Seat) -> str:
    """Where a node listens for the others."""
    return f"tcp://{seat.host}:{seat.spare[1]}"


def _uri(preset: str, host: str, port: int, security: Security) -> str:
    scheme = "mqtt+nio" if preset == "tuned" else "mqtt"
    if not security.transport.is_encrypted:
        return f"{scheme}://{host}:{port}"
    return f"{scheme}+ssl://{host}:{port}" + ("?transport.needClientAuth=true" if security.authority else "")


def _tls(security: Security) -> Iterator[str]:
    stores = f'keyStore={quoteattr(f"file:{java.key_store_path(security)}")} keyStoreType="PKCS12"'
    stores += f' keyStorePassword="{java.STORE_PASSWORD}" keyStoreKeyPassword="{java.STORE_PASSWORD}"'
    if security.authority:
        stores += f' trustStore={quoteattr(f"file:{java.trust_store_path(security)}")} trustStoreType="PKCS12"'
        stores += f' trustStorePassword="{java.STORE_PASSWORD}"'
    yield f"    <sslContext><sslContext {stores}/></sslContext>"


def _permissions(choice: BrokerChoice, security: Security) -> Iterator[str]:
    """Who may read and write where: all entries that match count together, and what none matches is forbidden."""
    if not security.readable and not security.writable:
        return
    yield "    <authorizationPlugin><map><authorizationMap><authorizationEntries>"
    yield f'      <authorizationEntry topic="&gt;" admin="{_GROUP},{_NODES}" read="{_NODES}" write="{_NODES}"/>'
    yield f'      <authorizationEntry topic="ActiveMQ.Advisory.&gt;" read="{_GROUP}" write="{_GROUP}"/>'
    for kind, filters in (("read", security.readable), ("write", security.writable)):
        for each in filters:
            yield f'      <authorizationEntry topic={quoteattr(_topic(choice, each))} {kind}="{_GROUP}"/>'
    yield "    </authorizationEntries></authorizationMap></map></authorizationPlugin>"


def _topic(choice: BrokerChoice, topic_filter: str) -> str:
    """A filter in ActiveMQ's own words, where levels are parted by dots."""
    if "." in topic_filter:
        raise UserError(f"broker {choice.name}: ActiveMQ has no permissions for topics with dots, as {topic_filter!r}")
    return topic_filter.replace("/", ".").replace("+", "*").replace("#", ">")


def _word(is_on: bool) -> str:
    return "true" if is_on else "false"
