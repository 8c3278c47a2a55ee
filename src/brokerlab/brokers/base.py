"""What the lab asks of a broker: a small protocol for all, and one more for each optional ability.

A driver describes; it starts nothing. `process.py` starts and stops what a driver describes, and
the lab proves that it is ready. What a broker cannot do its driver does not implement.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol, runtime_checkable

from brokerlab.brokers.source import Source
from brokerlab.study.secret import Secret
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


class Departure(StrEnum):
    """What of MQTT a broker does not keep; the contract suite proves each one that a driver names, and no other."""

    RAISES_QOS = "delivers with the QoS of the subscription what was published with less"
    IGNORES_SUBSCRIBED_QOS = "delivers with the QoS of the publication, whatever was subscribed"
    DELIVERS_AT_QOS_0 = "grants QoS 1 and 2 to a clean session, and delivers at QoS 0"
    NO_RETAIN_FLAG = "sends a retained message to a new subscriber without the flag"
    NO_RETAINED = "sends no retained message to a new subscriber"
    DISORDERS = "does not keep the order of messages: seen at QoS 0, and at times above"
    DISORDERS_QOS_1 = "does not keep the order at QoS 1, and at times not at the others"
    WIDENS_PLUS = "lets + in a filter stand for several levels of a topic"
    CLOSES_INSTEAD_OF_REFUSING = "answers a wrong password by closing the connection, without a CONNACK"
    CLOSES_AT_SUBSCRIBE = "closes the connection of a client that subscribes before its CONNACK, or right after"
    HANGS_UP_ON_WS = "closes a WebSocket at a wrong password, where MQTT has a CONNACK that refuses"
    LOSES_PROPERTIES = "passes no user property of MQTT 5.0 on"
    LISTENS_ELSEWHERE = "also listens on addresses that it was not told"


@dataclass(frozen=True, slots=True)
class Abilities:
    """What the broker claims; the contract suite proves it."""

    qos: tuple[Qos, ...] = (Qos.AT_MOST_ONCE, Qos.AT_LEAST_ONCE, Qos.EXACTLY_ONCE)
    protocols: tuple[str, ...] = ("3.1.1",)
    says_qos_at_5: Qos | None = None  # the highest that it names to clients of MQTT 5, where that is less than it has
    presets: tuple[str, ...] = ("stock",)
    options: tuple[str, ...] = ()  # names that BrokerChoice.options may use
    transports: tuple[Transport, ...] = (Transport.TCP,)
    has_credentials: bool = False  # user names and passwords
    has_client_certificates: bool = False  # refuses clients without one, if told to
    has_shared_subscriptions: bool = False  # $share/group/filter
    is_scalable: bool = False  # uses more than a fixed number of threads (S-04)
    has_permissions: bool = False  # who may publish and subscribe to which topics
    has_port_per_protocol: bool = False  # MQTT 5 is spoken on another port than 3.1.1: see Security.protocol
    has_clusters: bool = False
    has_bridges: bool = False
    most_nodes: int | None = None  # that the licence allows in one cluster; None: any number
    payload_limit_bytes: int | None = None  # of the preset stock; None: it takes at least 200,000
    departs: tuple[Departure, ...] = ()
    licence: str = ""


@dataclass(frozen=True, slots=True)
class Security:
    """What a node's listener speaks, and who gets in: by default anybody, over bare TCP."""

    transport: Transport = Transport.TCP
    certificate: Path | None = None  # the broker's own (PEM), with its key; for encrypted transports
    key: Path | None = None
    authority: Path | None = None  # clients must have a certificate that this one signed (PEM)
    users: Mapping[str, str] = field(default_factory=dict, repr=False)  # name -> password; empty: nobody is asked
    folder: Path | None = None  # private, and removed after the run: for the driver's files that hold secrets
    protocol: str = "3.1.1"  # what the clients speak, for a broker that has a port for each version
    readable: tuple[str, ...] = ()  # filters that users may subscribe to; nothing is forbidden where both are empty
    writable: tuple[str, ...] = ()  # filters that users may publish to


OPEN = Security()


@dataclass(frozen=True, slots=True)
class Image:
    """The container image that a node is started from, where it is no program of this machine (container.py)."""

    name: str  # with its tag
    mounts: Mapping[str, str] = field(default_factory=dict)  # file of the node's -> its path in the container
    data: tuple[str, ...] = ()  # folders in the container that hold data: empty at its start, gone after its end


@dataclass(frozen=True, slots=True)
class Node:
    """One node to start: a command in the foreground, and the files that it reads."""

    argv: tuple[str, ...]  # of a container what follows its entry point; empty: the image's own command
    host: str
    port: int
    files: Mapping[str, str] = field(default_factory=dict)  # path below the node's folder -> text
    # Files below Security.folder -> what they hold.
    secrets: Mapping[Path, str | bytes] = field(default_factory=dict, repr=False)
    env: Mapping[str, str] = field(default_factory=dict)  # added to the environment
    # Folders for the broker's own data below the node's, made empty at its start and removed at its stop.
    scratch: tuple[str, ...] = ()
    ready_s: float = 20.0  # how long it may take until it delivers
    stop_s: float = 5.0  # how long it may take to end after SIGTERM
    is_open_before_users: bool = False  # opens its port before it knows who may come in: one refusal says nothing yet
    # Name and password that all clients say where there are no users: it asks for them, and takes any.
    login: tuple[str, str] | None = None
    joins: tuple[tuple[str, ...], ...] = ()  # commands, run once it is ready, that make it a member of its cluster
    page: str | None = None  # the address (http) where it tells its own counters (CountsOnPage)
    page_headers: Mapping[str, str] = field(default_factory=dict, repr=False)  # for it, such as telling.basic(…)
    image: Image | None = None  # None: a program of this machine


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where somebody's broker is, and how one gets in."""

    host: str
    port: int
    prefix: str = ""  # before every topic of ours; ends with /
    authority: Path | None = None  # who must have signed its certificate (PEM); None: one that the system trusts
    path: str = "/mqtt"  # of WebSocket
    user: str | None = None  # of all clients, where the workload names none
    password: Secret | None = None


@dataclass(frozen=True, slots=True)
class Seat:
    """Where one node of an ensemble is to be."""

    index: int
    host: str  # what it listens on, and where the others reach it
    port: int  # of MQTT
    folder: Path  # of all its files
    spare: tuple[int, ...] = ()  # eight free ports of its host, for what the nodes say to each other and for pages


@dataclass(frozen=True, slots=True)
class Group:
    """The nodes of a cluster as a driver describes them."""

    nodes: tuple[Node, ...]  # by seat
    servers: tuple[Node, ...] = ()  # what they need beside them (Redis), started first, each at the first seat
    is_together: bool = False  # all are started before the first is waited for; otherwise one after the other


@dataclass(frozen=True, slots=True)
class Peer:
    """The far end of a bridge: another broker's listener, and how a bridge gets in."""

    name: str
    host: str
    port: int
    user: str | None = None
    password: str | None = field(default=None, repr=False)


class Broker(Protocol):
    """One broker in one version."""

    @property
    def name(self) -> str:
        """What a study calls it; with a version, as in mosquitto@2.1.2, for all but the first of several."""
        ...

    @property
    def abilities(self) -> Abilities: ...

    @property
    def source(self) -> Source:
        """Where it comes from."""
        ...

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


class Count(StrEnum):
    """What brokers count, by one name for all of them; the first five since the broker started."""

    RECEIVED = "received"  # publications of clients
    RECEIVED_BYTES = "received_bytes"  # of their payloads
    SENT = "sent"  # publications to subscribers
    SENT_BYTES = "sent_bytes"  # of their payloads
    DROPPED = "dropped"  # publications that a subscriber should have got
    CONNECTIONS = "connections"
    SUBSCRIPTIONS = "subscriptions"
    RETAINED = "retained"  # messages that it keeps for subscribers to come
    QUEUED = "queued"  # messages that wait for a subscriber


@dataclass(frozen=True, slots=True)
class Counter:
    """One of the broker's own counters, which of our counts it is, and what it includes.

    An exact one equals our count to the message whenever it includes everything that a run did: the contract suite
    proves it with all levels of QoS, and what differs in a run is a finding. Any other is shown and accuses nobody.
    """

    name: str  # as the broker calls it: a topic, a Prometheus name with its labels, the path of a JSON value
    count: Count
    is_exact: bool = False
    qos: tuple[Qos, ...] = tuple(Qos)  # the QoS levels of publications that it includes
    has_retained: bool = True  # includes publications with RETAIN
    has_proof: bool = True  # includes the messages of the proof of readiness
    has_reader: bool = True  # includes our client that reads counters on topics, and its subscriptions
    has_sys: bool = False  # includes the broker's own messages on $SYS; of SENT: those to our reader
    late_s: float = 0.0  # how old the value may be that it tells
    note: str = ""


@runtime_checkable
class ChecksOptions(Protocol):
    """A broker whose driver knows what its options may hold, while the study is read."""

    def check_option(self, name: str, value: object) -> None:
        """RuleError where the option, which is one of Abilities.options, cannot hold that value."""
        ...


@runtime_checkable
class RunsElsewhere(Protocol):
    """A broker that somebody else runs: it is reached, and never started, stopped, limited or sampled."""

    def endpoint(self, choice: BrokerChoice, transport: Transport) -> Endpoint: ...


@runtime_checkable
class Clusters(Protocol):
    """A broker whose nodes are one: what is published at any of them is delivered at all."""

    def cluster(self, choice: BrokerChoice, seats: Sequence[Seat], *, security: Security = OPEN) -> Group: ...


@runtime_checkable
class Bridges(Protocol):
    """A broker that carries messages to and from another broker by itself."""

    def bridged(
        self, choice: BrokerChoice, seat: Seat, *, peers: Sequence[Peer], security: Security = OPEN
    ) -> Node:  # fmt: skip
        """The node that opens a bridge to each peer, for all topics and both ways.

        No message goes back where it came from.
        """
        ...


@runtime_checkable
class TellsMembers(Protocol):
    """A broker whose nodes tell how many of them there are."""

    def members(self, node: Node) -> int | None:
        """How many nodes this one knows as running members, itself included; None when it does not answer.

        It is asked from inside the node's namespace, about once a second; it takes less than two.
        """
        ...


@runtime_checkable
class Counts(Protocol):
    """A broker that tells its own counters: each on the topic of its name ($SYS), unless it has a page for them."""

    def counters(self) -> tuple[Counter, ...]: ...


@runtime_checkable
class CountsOnPage(Counts, Protocol):
    """A broker that tells its own counters on the page at Node.page; `telling.py` reads the usual formats."""

    def read_page(self, text: str) -> Mapping[str, float]:
        """The numbers on the page by the names that the counters have; others may be among them."""
        ...
