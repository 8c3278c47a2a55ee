"""The formats by name."""

from brokerlab.errors import UserError
from brokerlab.imports.base import Format
from brokerlab.imports.blaster import Blaster
from brokerlab.imports.border import Border
from brokerlab.imports.collectl import Collectl
from brokerlab.imports.csv_mapping import Csv
from brokerlab.imports.docker_stats import DockerStats
from brokerlab.imports.emqtt_bench import EmqttBench
from brokerlab.imports.emqttb import Emqttb
from brokerlab.imports.mqtt_stresser import MqttStresser
from brokerlab.imports.mqttloader import MqttLoader
from brokerlab.imports.pcap import NAME as PCAP
from brokerlab.imports.subscriber_log import SubscriberLog
from brokerlab.study.nearest import listed, nearest

_ALL: tuple[Format, ...] = (
    SubscriberLog(),
    DockerStats(),
    Border(),
    Collectl(),
    Blaster(),
    EmqttBench(),
    MqttLoader(),
    MqttStresser(),
    Emqttb(),
    Csv(),
)
FORMATS = {each.name: each for each in _ALL}
_NAMES = [*FORMATS, PCAP]  # captures are no text, and are taken over as they are


def format_of(name: str) -> Format:
    if name in FORMATS:
        return FORMATS[name]
    close = nearest(name, _NAMES)
    meant = f"did you mean {close}? " if close else ""
    raise UserError(f"there is no format {name!r}", hint=f"{meant}formats are: {listed(_NAMES)}")
