"""Public brokers by name: those that paper 003 measured, as they are to be found today.

They belong to others, who give no promises and ask for little load; brokerlab connects to one only when a study names
it. The paper published 100 messages at 1 to 10 per second.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from brokerlab.study.values import Transport

_MQTT = 1883


@dataclass(frozen=True, slots=True)
class PublicBroker:
    host: str
    note: str
    ports: Mapping[Transport, int] = field(default_factory=lambda: {Transport.TCP: _MQTT})
    needs_user: bool = False
    needs_prefix: bool = False


_ALL = (
    PublicBroker(
        "broker.emqx.io",
        "EMQX",
        {Transport.TCP: _MQTT, Transport.TLS: 8883, Transport.WS: 8083, Transport.WSS: 8084},
    ),
    PublicBroker(
        "broker.hivemq.com",
        "HiveMQ; the paper prints broker.hivemq.org",
        {Transport.TCP: _MQTT, Transport.WS: 8000},
    ),
    PublicBroker(
        "broker.mqttdashboard.com",
        "the same service as broker.hivemq.com under another name",
        {Transport.TCP: _MQTT, Transport.WS: 8000},
    ),
    PublicBroker("ioticos.org", "gives each account a user and a root topic", needs_user=True, needs_prefix=True),
    PublicBroker("mqtt.fluux.io", "ejabberd"),
    PublicBroker(
        "mqtt.flespi.io",
        "a token is the user",
        {Transport.TCP: _MQTT, Transport.TLS: 8883},
        needs_user=True,
    ),
    PublicBroker("saas.theakiro.com", "Akiro; its maker sells other things today"),
    PublicBroker(
        "test.mosquitto.org",
        "Mosquitto; another port than 8883, as that one's certificate is of an authority of its own",
        {Transport.TCP: _MQTT, Transport.TLS: 8886, Transport.WS: 8080, Transport.WSS: 8081},
    ),
)

PUBLIC: Mapping[str, PublicBroker] = MappingProxyType({each.host: each for each in _ALL})
