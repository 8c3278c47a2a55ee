"""mica-mqtt, a broker in Java to be built into programs; the launcher is such a program.

Stock is its own default for everything but the listener; its heap is 1 GiB at most, as it has no limit of its own.
It takes packets up to 10 MiB and keeps nothing for a client that is away, nor on disk: so there is no `durable`,
and no `lossless`, as it has no queue to widen.

    tuned       4 GiB of heap

Its TLS is not used here: clients find records that they cannot decrypt. The properties of MQTT 5.0 it does not pass on.
"""

from pathlib import Path

from brokerlab.brokers import java
from brokerlab.brokers.base import OPEN, Abilities, Departure, Found, Missing, Node, Security
from brokerlab.brokers.choice import check_choice
from brokerlab.brokers.seats import alone
from brokerlab.brokers.source import Maven
from brokerlab.study.values import BrokerChoice, Transport

_VERSION = "2.5.10"
_CONFIG = "mica.properties"
_HEAP_MIB = {"tuned": 4096}
_STOCK_HEAP_MIB = 1024


class Mica:
    name = "mica"
    source = Maven(
        (
            f"org.dromara.mica-mqtt:mica-mqtt-server:{_VERSION}",
            "com.google.code.gson:gson:2.11.0",  # it wants a library for JSON, any one
            "org.slf4j:slf4j-simple:2.0.17",
        ),
        launcher=java.LAUNCHERS / "Mica.java",
    )
    abilities = Abilities(
        protocols=("3.1", "3.1.1", "5.0"),
        presets=("stock", "tuned"),
        options=("heap_mib",),
        transports=(Transport.TCP, Transport.WS),
        has_credentials=True,
        has_shared_subscriptions=True,
        is_scalable=True,
        departs=(Departure.DISORDERS, Departure.LOSES_PROPERTIES),
        licence="Apache-2.0",
    )

    def find(self) -> Found | Missing:
        return java.find_broker(self.name, "classes/Mica.class", version=_VERSION)

    def node(self, choice: BrokerChoice, *, folder: Path, host: str, port: int, security: Security = OPEN) -> Node:
        check_choice(choice, self.abilities, security)
        program, place = java.require(choice, self.find())
        seat = alone(folder, host, port, spare=0)
        here = seat.folder
        settings = {"host": host, "port": str(port), "transport": str(security.transport)}
        secrets: dict[Path, str | bytes] = {}
        if security.users:
            users = java.private(security) / "mica.users"
            secrets[users] = java.words(*security.users.items())
            settings["users"] = str(users)
        most_mib = _HEAP_MIB.get(choice.preset, _STOCK_HEAP_MIB)
        return java.node(
            (
                str(program),
                *java.options(choice, folder=here, first_mib=64, most_mib=most_mib),
                *("-cp", f"{place / 'classes'}:{place / 'lib'}/*", "Mica", str(here / _CONFIG)),
            ),
            seat,
            files={_CONFIG: java.properties(settings)},
            secrets=secrets,
        )
