"""Apache Apollo, a broker in Scala that was retired in 2015; its modules are still in Maven Central and run on Java 17.

Its distribution is not there, so it comes with a library for its log and one for its XML, which Java no longer has.
Stock is what `apollo create` writes, as far as a run needs it:

    virtual host        one, for every name of the host, with LevelDB on disk
    connector           one, for MQTT at the address of the run
    authentication      off, unless there are user names
    web administration  left out
    heap                1 GiB at most, as its own script says

It slows a publisher down where a queue is full, and drops nothing that we saw. So `lossless` is stock with more heap,
and `durable` is stock with its policy written out.

    lossless    4 GiB of heap
    durable     LevelDB writes through to the disk
    tuned       no store, 4 GiB of heap

To a clean session it grants QoS 1 and 2 but delivers at QoS 0. It does not accept clients without an identifier,
and closes the connection of one whose SUBSCRIBE comes before the CONNACK has left.
Its permissions are by patterns of its own and are not used here; client certificates neither.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from xml.sax.saxutils import quoteattr

from brokerlab.brokers import java
from brokerlab.brokers.base import OPEN, Abilities, Departure, Found, Missing, Node, Security
from brokerlab.brokers.choice import check_choice
from brokerlab.brokers.seats import alone
from brokerlab.brokers.source import Maven
from brokerlab.study.values import BrokerChoice, Transport

_VERSION = "1.7.1"
_DATA = "data"
_HEAP_MIB = {"lossless": 4096, "tuned": 4096}
_STOCK_HEAP_MIB = 1024

_LOGGING = """\
log4j.rootLogger=WARN, out
log4j.logger.org.apache.activemq.apollo.log.console=INFO
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d %-5p [%c] %m%n
"""

_LOGIN = """\
apollo {{
  org.apache.activemq.apollo.broker.security.FileUserLoginModule required file="{users}";
}};
"""


class Apollo:
    name = "apollo"
    source = Maven(
        (
            *(f"org.apache.activemq:apollo-{module}:{_VERSION}" for module in ("broker", "mqtt", "cli", "leveldb")),
            "ch.qos.reload4j:reload4j:1.2.19",
            "org.slf4j:slf4j-reload4j:1.7.36",
            "javax.xml.bind:jaxb-api:2.3.1",
            "org.glassfish.jaxb:jaxb-runtime:2.3.1",
            "javax.activation:activation:1.1.1",
        )
    )
    abilities = Abilities(
        protocols=("3.1", "3.1.1"),
        presets=("stock", "lossless", "durable", "tuned"),
        options=("heap_mib",),
        transports=(Transport.TCP, Transport.TLS),
        has_credentials=True,
        is_scalable=True,
        departs=(Departure.DELIVERS_AT_QOS_0, Departure.NO_RETAIN_FLAG, Departure.CLOSES_AT_SUBSCRIBE),
        licence="Apache-2.0",
    )

    def find(self) -> Found | Missing:
        return java.find_broker(self.name, f"lib/apollo-broker-{_VERSION}.jar", version=_VERSION)

    def node(self, choice: BrokerChoice, *, folder: Path, host: str, port: int, security: Security = OPEN) -> Node:
        check_choice(choice, self.abilities, security)
        program, place = java.require(choice, self.find())
        seat = alone(folder, host, port, spare=0)
        here = seat.folder
        files = {
            "etc/apollo.xml": "\n".join(_config(choice.preset, here, host, port, security)) + "\n",
            "etc/log4j.properties": _LOGGING,
        }
        secrets = java.stores(security)
        if security.users:
            users = java.private(security) / "users.properties"
            # It looks for the file below the folder of this one.
            files["etc/login.config"] = _LOGIN.format(users=os.path.relpath(users, here / "etc"))
            secrets[users] = java.properties(security.users)
        most_mib = _HEAP_MIB.get(choice.preset, _STOCK_HEAP_MIB)
        return java.node(
            (
                str(program),
                *java.options(choice, folder=here, first_mib=64, most_mib=most_mib),
                f"-Dapollo.base={here}",
                f"-Djava.security.auth.login.config={here}/etc/login.config",
                f"-Dlog4j.configuration=file:{here}/etc/log4j.properties",
                *("-cp", f"{place / 'lib'}/*", "org.apache.activemq.apollo.cli.Apollo", "run"),
            ),
            seat,
            files=files,
            secrets=secrets,
            scratch=(_DATA, "log", "tmp"),
        )


def _config(preset: str, here: Path, host: str, port: int, security: Security) -> Iterator[str]:
    yield '<broker xmlns="http://activemq.apache.org/schema/activemq/apollo">'
    yield f'  <authentication enabled="{"true" if security.users else "false"}" domain="apollo"/>'
    yield '  <access_rule allow="*" action="*"/>'
    yield f'  <virtual_host id="brokerlab"><host_name>localhost</host_name><host_name>{host}</host_name>'
    if preset != "tuned":
        sync = ' sync="true"' if preset == "durable" else ""
        yield f"    <leveldb_store directory={quoteattr(str(here / _DATA))}{sync}/>"
    yield "  </virtual_host>"
    scheme = "tls" if security.transport.is_encrypted else "tcp"
    yield f'  <connector id="mqtt" bind="{scheme}://{host}:{port}" protocol="mqtt"/>'
    if security.transport.is_encrypted:
        yield f'  <key_storage file={quoteattr(str(java.key_store_path(security)))} store_type="PKCS12"'
        yield f'    password="{java.STORE_PASSWORD}" key_password="{java.STORE_PASSWORD}"/>'
    yield "</broker>"
