"""The drivers by name. A new broker is one file and one line here; the contract suite finds it by itself."""

from collections.abc import Mapping
from types import MappingProxyType

from brokerlab.brokers.activemq import ActiveMq, ActiveMqOfDebian
from brokerlab.brokers.aedes import Aedes
from brokerlab.brokers.amqtt import Amqtt
from brokerlab.brokers.apollo import Apollo
from brokerlab.brokers.artemis import Artemis
from brokerlab.brokers.base import Broker
from brokerlab.brokers.choice import proposal
from brokerlab.brokers.comqtt import Comqtt
from brokerlab.brokers.ejabberd import Ejabberd
from brokerlab.brokers.elsewhere import known_brokers
from brokerlab.brokers.fluxmq import FluxMQ
from brokerlab.brokers.gmqtt import Gmqtt
from brokerlab.brokers.hbmqtt import Hbmqtt
from brokerlab.brokers.hivemq import HiveMq
from brokerlab.brokers.hmq import Hmq
from brokerlab.brokers.images import image_brokers
from brokerlab.brokers.mica import Mica
from brokerlab.brokers.mochi import Mochi
from brokerlab.brokers.moquette import Moquette
from brokerlab.brokers.mosca import Mosca
from brokerlab.brokers.mosquitto import Mosquitto
from brokerlab.brokers.nats import Nats
from brokerlab.brokers.rabbitmq import RabbitMQ
from brokerlab.brokers.remote import Remote
from brokerlab.brokers.rmqtt import Rmqtt
from brokerlab.brokers.rumqttd import Rumqttd
from brokerlab.brokers.scripted import Scripted
from brokerlab.brokers.source import version_in
from brokerlab.errors import UserError

_ALL: tuple[Broker, ...] = (
    ActiveMq(),
    ActiveMqOfDebian(),
    ActiveMq("6.1.7"),
    Aedes(),
    Amqtt(),
    Apollo(),
    Artemis(),
    Comqtt(),
    Ejabberd(),
    FluxMQ(),
    Gmqtt(),
    Hbmqtt(),
    HiveMq(),
    Hmq(),
    Mica(),
    Mochi(),
    Moquette(),
    Mosca(),
    Mosquitto(),
    Mosquitto("2.0.21"),
    Mosquitto("2.1.2"),
    Nats(),
    Nats("2.9.10"),
    RabbitMQ(),
    RabbitMQ("4.0.5"),
    Remote(),  # not a broker either: somebody's, by its address
    Rmqtt(),
    Rumqttd(),
    Rumqttd("0.20.0"),
    Scripted(),  # not a broker to compare: it proves the meter
    *image_brokers(),  # by the user's container engine
    *known_brokers(),  # which nobody can install from here
)

DRIVERS: Mapping[str, Broker] = MappingProxyType({broker.name: broker for broker in _ALL})


# The first of several versions by its whole name too, where its source pins it: mochi is also mochi@2.7.9.
PINNED: Mapping[str, Broker] = MappingProxyType(
    {
        name: broker
        for broker in _ALL
        if (version := version_in(broker.source)) and (name := f"{broker.name}@{version}") and "@" not in broker.name
    }
)


def driver(name: str) -> Broker:
    """The driver of that name."""
    found = DRIVERS.get(name) or PINNED.get(name)
    if found is None:
        raise UserError(f"there is no driver {name!r}", hint=proposal(name, DRIVERS))
    return found
