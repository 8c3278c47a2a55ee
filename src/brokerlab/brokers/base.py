"""What the lab asks of a broker: a small protocol for all, and one more for each optional ability.

A driver describes; it starts nothing. `process.py` starts and stops what a driver describes, and
the lab proves that it is ready. What a broker cannot do its driver does not implement.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from brokerlab.study.values import BrokerChoice, Qos, Transport


@dataclass(frozen=True, slots=True)
class Found:
    """The broker is on this machine."""

    program: str  # path of the executable, or the Python module
    version: str


@dataclass(frozen=True, slots=True)
class Missing:
    """The broker is not on this machine."""

    reason: str
    hint: str  # how to get it


@dataclass(frozen=True, slots=True)
class Abilities:
    """What the broker claims; the contract suite proves it."""

    qos: tuple[Qos, ...] = (Qos.AT_MOST_ONCE, Qos.AT_LEAST_ONCE, Qos.EXACTLY_ONCE)
    protocols: tuple[str, ...] = ("3.1.1",)
    presets: tuple[str, ...] = ("stock",)
    options: tuple[str, ...] = ()  # names that BrokerChoice.options may use
    transports: tuple[Transport, ...] = (Transport.TCP,)
    has_credentials: bool = False  # user names and passwords
    has_client_certificates: bool = False  # refuses clients without one, if told to
    has_shared_subscriptions: bool = False  # $share/group/filter
    is_scalable: bool = False  # uses more than a fixed number of threads (S-04)


@dataclass(frozen=True, slots=True)
class Security:
    """What a node's listener speaks, and who gets in: by default anybody, over bare TCP."""

    transport: Transport = Transport.TCP
    certificate: Path | None = None  # the broker's own (PEM), with its key; for encrypted transports
    key: Path | None = None
    authority: Path | None = None  # clients must have a certificate that this one signed (PEM)
    users: Mapping[str, str] = field(default_factory=dict, repr=False)  # name -> password; empty: nobody is asked
    folder: Path | None = None  # private, and removed after the run: for the driver's files that hold secrets


OPEN = Security()


@dataclass(frozen=True, slots=True)
class Node:
    """One node to start: a command in the foreground, and the files that it reads."""

    argv: tuple[str, ...]
    host: str
    port: int
    files: Mapping[str, str] = field(default_factory=dict)  # path below the node's folder -> text
    secrets: Mapping[Path, str] = field(default_factory=dict, repr=False)  # files below Security.folder -> text
    env: Mapping[str, str] = field(default_factory=dict)  # added to the environment
    scratch: tuple[str, ...] = ()  # folders of the broker's own data below the node's folder, removed at its stop


class Broker(Protocol):
    """One broker on this machine."""

    @property
    def name(self) -> str: ...

    @property
    def abilities(self) -> Abilities: ...

    def find(self) -> Found | Missing:
        """Where the broker is on this machine, and its version."""
        ...

    def node(
        self, choice: BrokerChoice, *, folder: Path, host: str, port: int, security: Security = OPEN
    ) -> Node:  # fmt: skip
        """The single node that serves MQTT on host:port, with all its files in `folder`.

        Nothing that is secret goes there, nor into the command line: see Security.folder.
        """
        ...


@dataclass(frozen=True, slots=True)
class Counter:
    """One of the broker's own counters, readable as an MQTT topic, and which of our counts it must equal."""

    topic: str
    equals: str  # of every PUBLISH ever sent to this node: "publications" or "payload_bytes", their sum
    qos: tuple[Qos, ...]  # the QoS levels of publications that it includes
    has_retained: bool = True  # whether it includes publications with RETAIN
    note: str = ""


@runtime_checkable
class CountsOnTopics(Protocol):
    """A broker that publishes its own counters ($SYS)."""

    def counters(self) -> tuple[Counter, ...]: ...
