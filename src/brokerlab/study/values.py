"""The study as frozen values: what file.py makes of a study file and everything else reads.

The seven attributes of `Study` below its name are the seven steps of the evaluation methodology
(M-01): goals, system, metrics, scenario, deploy, analysis, present.
Every quantity is in one unit per dimension, and the unit is in the name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum

from brokerlab.study.ensemble_values import SINGLE, Ensemble
from brokerlab.study.fault_values import NO_FAULTS, Faults
from brokerlab.study.limit_values import UNLIMITED, Limits
from brokerlab.study.mqtt5_values import Mqtt5
from brokerlab.study.pause_values import Pause
from brokerlab.study.placement_values import IN_TURN, Placement
from brokerlab.study.secret import Secret
from brokerlab.study.table import FilterTable
from brokerlab.study.topology import ON_LOOPBACK, Topology
from brokerlab.study.will_values import Wills

Level = str | int | float

LOCAL = "local"  # of deploy.load_on: workers are processes of this machine
AUTO = "auto"  # a window that is widened until the delivered rate stops growing


class Qos(IntEnum):
    """MQTT 3.1.1 section 4.3."""

    AT_MOST_ONCE = 0
    AT_LEAST_ONCE = 1
    EXACTLY_ONCE = 2


class Arrivals(StrEnum):
    """How a publisher decides when to send; load/schedule.py says exactly when."""

    CONSTANT = "constant"  # open loop: message i of a publisher is due at start + (i + offset) / rate
    POISSON = "poisson"  # open loop: exponential gaps
    JITTER = "jitter"  # open loop: a constant rate, each message off its time by up to a share of the interval
    BURST = "burst"  # open loop: several at once, at the same mean rate
    RAMP = "ramp"  # open loop: the rate changes linearly over the schedule
    STEP = "step"  # open loop: several rates, one after the other
    CONTACT = "contact"  # open loop: what was collected for long is sent in a short window
    WINDOW = "window"  # closed loop: a publisher has a fixed number of messages in flight; 1 is one in flight
    REPLAY = "replay"  # open loop: a file once, at its own times or at a rate; it begins with the measure phase
    SATURATE = "saturate"  # closed loop: a window of outstanding messages is kept full
    SEARCH = "search"  # trials at constant rates, to find the largest that the broker carries


class Content(StrEnum):
    """What fills a payload beside the identity of its message."""

    RANDOM = "random"  # does not compress
    ZEROS = "zeros"
    TEXT = "text"  # words, which compress as prose does
    JSON = "json"  # a template whose numbers are the identity


class Transport(StrEnum):
    """What MQTT is carried by."""

    TCP = "tcp"
    TLS = "tls"
    WS = "ws"  # WebSocket
    WSS = "wss"  # WebSocket inside TLS

    @property
    def is_encrypted(self) -> bool:
        return self in (Transport.TLS, Transport.WSS)

    @property
    def is_framed(self) -> bool:
        return self in (Transport.WS, Transport.WSS)


class Certificates(StrEnum):
    """What clients prove with that they may come in, beside a password."""

    NONE = "none"
    SHARED = "shared"  # one certificate for all clients
    EACH = "each"  # one for each client


class Behaviour(StrEnum):
    """How long a publisher's connection lasts; load/lives.py makes it so."""

    PERSISTENT = "persistent"  # as long as the run
    PER_MESSAGE = "per-message"  # one message: connect, publish, wait for its acknowledgement, DISCONNECT
    PER_MESSAGE_ABRUPT = "per-message-abrupt"  # one message: connect, publish, close without a word
    CHURN = "churn"  # a lifetime, over at another time for each client; drained before it disconnects
    STORM = "storm"  # until all lose their connections at once, without a word, and come back at once


PER_MESSAGE = (Behaviour.PER_MESSAGE, Behaviour.PER_MESSAGE_ABRUPT)  # a connection has one message
ABRUPT = (Behaviour.PER_MESSAGE_ABRUPT, Behaviour.STORM)  # connections end without DISCONNECT


class SessionKind(StrEnum):
    """What the broker keeps of a client while it is away."""

    CLEAN = "clean"  # nothing
    PERSISTENT = "persistent"  # subscriptions, messages for it, and what is not acknowledged


class Who(StrEnum):
    """Who loses its connection, in a storm or at the end of a lifetime."""

    PUBLISHERS = "publishers"
    ALL = "all"  # subscribers too


class Record(StrEnum):
    """What a message is of a file that is replayed; study/replay.py says exactly."""

    LINE = "line"
    CSV = "csv"
    JSONL = "jsonl"


class Split(StrEnum):
    """Which publisher sends which record of a file; each keeps the order of the file."""

    TURNS = "round-robin"
    BLOCKS = "blocks"  # the first part of the file is the first publisher's …
    KEY = "key"  # all records with one value of a column are one publisher's


class Roles(StrEnum):
    """What the clients of a workload do with a message."""

    ONE_WAY = "one-way"  # publishers send, subscribers receive
    ECHO = "echo"  # devices answer every message on another topic, and who sent it receives the answer
    LOOP = "loop"  # a client receives its own messages, over one connection


class Start(StrEnum):
    """What tells publishers to begin."""

    CLOCK = "clock"  # a time that the lab sets beforehand
    CONTROL = "control"  # messages over the broker, as to a device that is far away


class SubscribeAt(StrEnum):
    """When subscribers subscribe."""

    BEFORE = "before"  # the first message
    AFTER = "after"  # the last one: they get what the broker retained


@dataclass(frozen=True, slots=True)
class Goals:
    question: str
    rank_by: str = "latency.p99"


@dataclass(frozen=True, slots=True)
class BrokerChoice:
    """One named broker of a study; two names may use one driver (an A/A pair)."""

    name: str
    driver: str
    preset: str = "stock"
    optional: bool = False  # left out of the plan, with a note, where the broker is not installed
    options: Mapping[str, object] = field(default_factory=dict)  # the driver's own, plain JSON values


@dataclass(frozen=True, slots=True)
class System:
    brokers: tuple[BrokerChoice, ...]
    ensemble: Ensemble = SINGLE
    limits: Limits = UNLIMITED


@dataclass(frozen=True, slots=True)
class Topics:
    """Topics of a publisher and filters of a subscriber; study/topics.py says what they become."""

    publish: str = "brokerlab/{publisher}"
    subscribe: str | tuple[str, ...] = "brokerlab/#"
    count: int = 1  # topics of each publisher: its message `seq` goes to the topic seq mod count
    depth: int | None = None  # levels that each topic is padded to
    length_bytes: int | None = None  # bytes that each topic is padded to
    share: tuple[str, ...] = ()  # groups of a shared subscription, to which subscribers belong in turn
    subscribe_at: SubscribeAt = SubscribeAt.BEFORE
    reply: str = "brokerlab-echo/{publisher}"  # of a device's answers; used by echo and response_topic
    prefix: str = ""  # what a remote broker wants before every topic, ours and the lab's: all of the above have it


@dataclass(frozen=True, slots=True)
class Schedule:
    """When each publisher sends."""

    arrivals: Arrivals = Arrivals.CONSTANT
    rate_per_s: float = 100.0  # per publisher; not used by step, window, saturate and search
    window: int | str = AUTO  # messages published but not yet delivered, of all publishers, or AUTO; used by saturate
    jitter_percent: float = 0.0  # of the interval, to both sides; used by jitter
    burst: int = 1  # messages at once; used by burst
    to_per_s: float = 0.0  # the rate at the end; used by ramp, and the highest that is tried by search
    rates_per_s: tuple[float, ...] = ()  # used by step
    store_s: float = 0.0  # how long messages were collected; used by contact
    within_s: float = 0.0  # how long the contact lasts; used by contact
    speed: float = 1.0  # of a file's own times; used by replay
    p99_ms: float = 0.0  # of latency, at most, in a trial that passes; this and the next three: used by search
    from_per_s: float = 0.0  # the lowest rate that is tried
    precision_percent: float = 5.0  # of the rate: how wide the interval of the result may be
    trial_s: float = 3.0
    inflight: int | None = None  # unacknowledged messages of a publisher at QoS 1 and 2; None is what MQTT allows


@dataclass(frozen=True, slots=True)
class Replay:
    """A file whose records are the payloads."""

    file: str  # absolute
    sha256: str
    record: Record = Record.LINE
    header: bool = True  # the first record of csv names the columns and is not sent
    time: str | None = None  # the column or key with the times of the records
    split: Split = Split.TURNS
    key: str | None = None  # the column or key of Split.KEY
    repeat: bool = False  # after the last record the first again; otherwise a publisher stops


@dataclass(frozen=True, slots=True)
class Payload:
    """What messages hold, and their sizes where they differ; `Workload.payload_bytes` is then the largest."""

    content: Content = Content.RANDOM
    template: str | None = None  # of JSON content, with its placeholders
    mix: tuple[tuple[int, float], ...] = ()  # (bytes, percent of the messages), drawn for each message
    each: tuple[int, ...] = ()  # bytes by publisher, from the start again after the last
    replay: Replay | None = None  # the payloads are records of a file, which nothing is added to


@dataclass(frozen=True, slots=True)
class Credentials:
    """User names and passwords: a pattern for all clients, or a file with a line for each."""

    user: str = ""  # {client} is the client's number: publishers first, then subscribers, then all others
    password: Secret = field(default_factory=Secret)
    file: str = ""  # instead of both; absolute


@dataclass(frozen=True, slots=True)
class ClientLife:
    """How clients connect, and how long their connections last."""

    behaviour: Behaviour = Behaviour.PERSISTENT
    connect_rate_per_s: float | None = None  # of all clients of the run together; None is as fast as it goes
    lifetime_s: float | None = None  # of a connection; used by churn
    every_s: float | None = None  # between two storms
    who: Who = Who.PUBLISHERS  # used by storm and churn
    session: SessionKind = SessionKind.CLEAN
    keep_alive_s: int = 60
    idle: int = 0  # clients that connect and keep alive, and nothing else
    addresses: tuple[str, ...] = ()  # of the clients' side, taken in turn; none: the system's choice
    reconnect: bool = False  # one that loses its connection in the run asks for another at once, then every half second
    failover: bool = False  # and goes to the next node of the ensemble where its own does not answer


@dataclass(frozen=True, slots=True)
class Echo:
    """How a device answers, and where it is; used by the role echo."""

    qos: Qos = Qos.AT_MOST_ONCE
    site: int | None = None  # of the topology, from 1; None: beside the publishers


@dataclass(frozen=True, slots=True)
class Probe:
    """A client beside the load that times a message of its own, there and back."""

    every_s: float = 2.0
    qos: Qos = Qos.AT_LEAST_ONCE


@dataclass(frozen=True, slots=True)
class Workload:
    publishers: int = 1
    subscribers: int = 1
    topics: Topics = Topics()
    payload_bytes: int = 64
    payload: Payload = Payload()
    schedule: Schedule = Schedule()
    qos: Qos = Qos.AT_MOST_ONCE
    retain: bool = False  # the broker keeps the last message of each topic
    protocol: str = "3.1.1"
    transport: Transport = Transport.TCP
    certificates: Certificates = Certificates.NONE
    permissions: bool = False  # whether the broker has a list of the topics that its clients may use
    credentials: Credentials | None = None  # None: clients give no name
    clients: ClientLife = ClientLife()
    role: Roles = Roles.ONE_WAY
    echo: Echo = Echo()
    probe: Probe | None = None
    will: Wills | None = None
    pause: Pause | None = None  # of the subscribers; None: they always read
    mqtt5: Mqtt5 = field(default_factory=Mqtt5)
    subscriptions: FilterTable = field(default_factory=FilterTable)  # beside those of the subscribers
    start: Start = Start.CLOCK
    placement: Placement = IN_TURN  # at the nodes of an ensemble


@dataclass(frozen=True, slots=True)
class Factor:
    """A variable with its levels; every other parameter keeps its one value."""

    name: str
    levels: tuple[Level, ...]


@dataclass(frozen=True, slots=True)
class Scenario:
    workload: Workload
    variables: tuple[Factor, ...]
    topology: Topology = ON_LOOPBACK
    faults: Faults = NO_FAULTS


@dataclass(frozen=True, slots=True)
class Phases:
    """How long the timed phases of a run last; drain is the longest wait for stragglers."""

    warmup_s: float = 1.0
    measure_s: float = 5.0
    drain_s: float = 5.0
    idle_s: float = 0.0  # before any client comes; 0: there is no such phase


@dataclass(frozen=True, slots=True)
class Deploy:
    repetitions: int = 3
    seed: int = 1
    phases: Phases = Phases()
    load_on: str = LOCAL
    captures: tuple[str, ...] = ()  # taps where packets are written to files: network/capture.py


@dataclass(frozen=True, slots=True)
class Guards:
    """A run beyond one of these is invalid: the generator or its machine was the limit (S-05)."""

    generator_cpu_percent: float = 70.0  # of one core, of a publishing worker
    schedule_lag_p99_ms: float = 5.0
    subscriber_cpu_percent: float = 80.0
    receive_lag_p99_ms: float = 20.0  # arrived bytes waited so long until they were read
    steal_percent: float = 5.0  # of all cores, taken by other machines on the host
    swap_growth_bytes: int = 1 << 20
    clock_step_ms: float = 1.0
    socket_backlog_bytes: int = 128 << 10  # unread, on average, beside two messages
    throttled_percent: float = 5.0  # of a core's time, that a CPU quota held a worker back
    stalled_percent: float = 25.0  # of the measure phase, that a publishing worker of a closed loop lost by waking late


@dataclass(frozen=True, slots=True)
class Analysis:
    confidence_percent: float = 95.0
    guards: Guards = Guards()
    late_s: float = 1.0  # a first arrival later than this after its intended time is late


@dataclass(frozen=True, slots=True)
class Present:
    beside: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Study:
    name: str
    goals: Goals
    system: System
    metrics: tuple[str, ...]
    scenario: Scenario
    deploy: Deploy = Deploy()
    analysis: Analysis = Analysis()
    present: Present = Present()
