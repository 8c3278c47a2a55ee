"""What a bridge file says, as frozen values: brokers, and routes between them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from brokerlab.bridge.steps import Step
from brokerlab.load.packets import LEVELS
from brokerlab.study.address import written_address
from brokerlab.study.secret import Secret
from brokerlab.study.values import Transport

MOST_WORKERS = 64
INFLIGHT = 1000  # messages that the target has not acknowledged, at most, of one worker
SILENT_INFLIGHT = 20  # Mosquitto's own limit of messages of QoS 2 in one session


@dataclass(frozen=True, slots=True)
class Broker:
    """One end of routes, and how the bridge gets in."""

    name: str
    host: str
    port: int
    id: str  # the same in every bridge: by it a message is known that was there already
    protocol: str = "3.1.1"
    transport: Transport = Transport.TCP
    path: str = "/mqtt"  # of WebSocket
    authority: Path | None = None
    certificate: Path | None = None
    user: str | None = None
    password: Secret | None = None
    keep_alive_s: int = 60
    session_expiry_s: int = 86_400  # MQTT 5.0: how long it keeps what it has for us while we are away

    @property
    def level(self) -> int:
        return LEVELS[self.protocol]

    @property
    def address(self) -> str:
        return written_address(self.host, self.port)


@dataclass(frozen=True, slots=True)
class Route:
    """One direction: what is heard at one broker is published at another."""

    name: str
    source: str  # names of brokers
    target: str
    filters: tuple[str, ...]
    qos: int = 1
    retain: bool = True
    topics: tuple[tuple[str, str], ...] = ()  # (filter, template) in order; the first that matches counts
    steps: tuple[Step, ...] = ()
    workers: int = 1
    is_lasting: bool = True  # persistent connections; otherwise one for each message
    dead_letters: str = ""
    inflight: int = INFLIGHT
    buffer_bytes: int = 16 * 2**20
    echo: str | None = None  # the route that hears what this one publishes, and would carry it back


@dataclass(frozen=True, slots=True)
class Metrics:
    port: int | None = None
    host: str = "127.0.0.1"
    file: Path | None = None
    every_s: float = 10.0


@dataclass(frozen=True, slots=True)
class Bridge:
    name: str
    brokers: Mapping[str, Broker]
    routes: tuple[Route, ...]
    state: Path  # the folder of its logs
    metrics: Metrics = field(default_factory=Metrics)
