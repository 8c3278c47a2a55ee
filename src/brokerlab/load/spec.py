"""What a worker is told: plain values that travel to its process.

One worker is one process with one role (publishing or subscribing) and some of the run's clients.
The lab speaks to it in words, over a pipe:

    lab                      worker
                         <-  Ready                       it has started
    Connect              ->  Connected                   every client has its CONNACK
    Subscribe            ->  Subscribed                  every subscriber has its SUBACK; the broker's table is full
    Go(start, measure, end)                              absolute times; publishers keep to their schedule
                         <-  Sent, then Settled          publishers: all handed over; all acknowledged
                         <-  Began(start)                publishers that a control message started (starting.py)
    Retime(order)                                        the others then learn the true times of their Go
    Drain(expected, ...) ->  Settled                     subscribers: all here and quiet, or out of time
    Storm                                                all clients lose their connections, and come again
    Halt                                                 publishers give up what is due and not built, then say Sent
    TakeStock            ->  Stock                       what was seen since the last Go
    Leave(closed)        ->  Left                        publishers with a will: closed without a word, or disconnected
    Stop                 ->  Stopped                     disconnected, files closed

Go may come again, when all is settled: each is a schedule of its own, and sequence numbers go on.
"""

from dataclasses import dataclass, field
from pathlib import Path

from brokerlab.load.closes import Closed
from brokerlab.record.directory import RunDirectory
from brokerlab.study.places import LOOPBACK, Place
from brokerlab.study.values import Arrivals, Start, Transport, Workload


@dataclass(frozen=True, slots=True)
class Client:
    """One MQTT client: a publisher with its topic, or a subscriber with its filter."""

    number: int  # of the publisher or subscriber within the run
    name: str  # its client identifier
    topic: str  # of a publisher the first of its topics
    hears: str = ""  # the filter of a publisher that also hears, over the same connection
    user: str | None = None
    password: bytes | None = field(default=None, repr=False)
    certificate: Path | None = None  # with its key, in one file (PEM)
    filters: tuple[str, ...] = ()  # of a subscriber
    will: str = ""  # the topic of its will


@dataclass(frozen=True, slots=True)
class Entrance:
    """How clients get into the broker: what its listener speaks, and what they need for it."""

    transport: Transport = Transport.TCP
    authority: Path | None = None  # who must have signed the broker's certificate (PEM)
    path: str = "/mqtt"  # of WebSocket


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    node: str  # "publishers/0" or "subscribers/0"; also the name of its files
    index: int  # its place in the shared progress array
    host: str
    port: int
    clients: tuple[Client, ...]
    workload: Workload  # of the whole run
    fan_out: float  # expected deliveries per publication
    seed: int
    run: Path
    entrance: Entrance = Entrance()
    files: str = ""  # what the names of its raw files begin with, such as "probe_"
    hears_qos: int = 0  # what publishers that also hear ask for
    heard_index: int = 0  # where they count in the shared progress array what they hear
    place: Place = LOOPBACK  # where it lives
    others: tuple[tuple[str, int], ...] = ()  # other nodes that a client may go to when its own does not answer
    connects_after: int = 0  # where they connect at a rate: so many places before the client with the number 0

    def folder(self, kind: str) -> Path:
        """Where this worker's raw files of a kind go."""
        return RunDirectory(self.run).raw(self.files + kind)

    @property
    def publishes(self) -> bool:
        """Whether the run goes on until this worker has sent everything."""
        return self.node.startswith(("publishers", "loops", "probe"))

    @property
    def is_near(self) -> bool:
        """Whether all brokers that its clients may go to are on the same machine, with nothing in between."""
        return all(host == "localhost" or host.startswith("127.") for host, _ in ((self.host, 0), *self.others))

    @property
    def saturates(self) -> bool:
        return self.workload.schedule.arrivals is Arrivals.SATURATE

    @property
    def is_closed(self) -> bool:
        """Whether publishers wait for what became of earlier messages instead of keeping a schedule."""
        return self.workload.schedule.arrivals in (Arrivals.WINDOW, Arrivals.SATURATE)

    @property
    def awaits_start(self) -> bool:
        """Whether its schedule begins with a control message instead of at the time of Go."""
        return self.workload.start is Start.CONTROL and self.node.startswith(("publishers", "loops"))

    @property
    def hears(self) -> bool:
        """Whether the run waits for what this worker is to receive."""
        return self.node.startswith(("subscribers", "loops", "probe"))


@dataclass(frozen=True, slots=True)
class Progress:
    """Which places of the array that all workers of a run share hold what."""

    published: tuple[int, ...]  # publications of a worker
    delivered: tuple[int, ...]  # deliveries of a worker
    overtaken: tuple[int, ...]  # messages that a worker still lacks while it has later ones of the same publisher
    window: int  # how many messages may be outstanding


@dataclass(frozen=True, slots=True)
class Ready:
    """The worker has started and listens."""


@dataclass(frozen=True, slots=True)
class Connect:
    timeout_s: float = 10.0  # of each client
    start_ns: int = 0  # of the first connection, where they come at a rate


@dataclass(frozen=True, slots=True)
class Connected:
    pass


@dataclass(frozen=True, slots=True)
class Subscribe:
    timeout_s: float = 10.0


@dataclass(frozen=True, slots=True)
class Granted:
    """The broker's answer to the subscription of one subscriber."""

    subscriber: int
    codes: tuple[int, ...]  # by filter: the QoS granted; 128 and above is a refusal
    asked_ns: int = 0  # when the subscription was sent

    @property
    def qos(self) -> int:
        """The lowest that was granted, or the first refusal where nothing was."""
        return min(self.codes)


@dataclass(frozen=True, slots=True)
class Subscribed:
    granted: tuple[Granted, ...] = ()
    devices: tuple[Granted, ...] = ()  # the same of devices


@dataclass(frozen=True, slots=True)
class Go:
    start_ns: int
    measure_ns: int
    end_ns: int
    number: int = 0  # of the order; Sent and Settled carry it, so that a late word is not taken for another's
    rate_per_s: float | None = None  # of each publisher, in a search or told by message; None: the workload's own


@dataclass(frozen=True, slots=True)
class Began:
    start_ns: int  # when the start message was here


@dataclass(frozen=True, slots=True)
class Retime:
    order: Go


@dataclass(frozen=True, slots=True)
class Drain:
    expected: int  # deliveries at this worker since the last Go
    deadline_ns: int
    quiet_ns: int = 0  # after so long without an arrival nothing more is waited for; 0: until the deadline


@dataclass(frozen=True, slots=True)
class Halt:
    pass


@dataclass(frozen=True, slots=True)
class Storm:
    pass


@dataclass(frozen=True, slots=True)
class TakeStock:
    pass


@dataclass(frozen=True, slots=True)
class Held:
    """How much a worker was held back in the measure phase: load/stalls.py."""

    stalled_percent: float | None = None  # of the phase, lost to late wakes; None but of publishers of a closed loop
    throttled_percent: float | None = None  # of a core's time, by a quota; None where the kernel does not tell


@dataclass(frozen=True, slots=True)
class Stock:
    """What a worker saw since the last Go; counts of messages are of those intended in its measure phase."""

    cpu_ns: int
    wall_ns: int
    closed_by_broker: tuple[str, ...] = ()
    # publishers
    given_up: int = 0  # due, but not built when they were told to halt
    unacknowledged: int = 0  # still in flight
    blocked: int = 0  # how often a socket did not take all that was handed to it
    lag_buckets: tuple[tuple[int, int], ...] = ()  # sent less due, or less the room in flight
    lag_max_ns: int = 0
    # subscribers
    receive_lag_buckets: tuple[tuple[int, int], ...] = ()
    receive_lag_max_ns: int = 0
    arrivals: int = 0
    latency_buckets: tuple[tuple[int, int], ...] = ()  # since the intended time
    latency_min_ns: int = 0
    latency_max_ns: int = 0
    under_way: tuple[float, float] = (0.0, 0.0)  # messages, mean of the second and of the last quarter
    backlog_bytes: float | None = None  # unread in the fullest socket, mean
    held: Held = Held()


@dataclass(frozen=True, slots=True)
class Sent:
    publications: tuple[tuple[int, int], ...]  # (publisher, how many, of all orders together)
    number: int = 0


@dataclass(frozen=True, slots=True)
class Settled:
    messages: int  # acknowledged (publishers) or received (subscribers)
    number: int = 0


@dataclass(frozen=True, slots=True)
class Leave:
    closed: tuple[int, ...]  # publishers whose connections end without DISCONNECT; the others say goodbye


@dataclass(frozen=True, slots=True)
class Left:
    closed: tuple[tuple[int, int], ...]  # (publisher, when)
    disconnected: tuple[int, ...]
    wiped: int = 0  # retained messages that they had the broker forget, each by a publication


@dataclass(frozen=True, slots=True)
class Stop:
    pass


@dataclass(frozen=True, slots=True)
class TableFacts:
    """What became of the filters beside the load's own; by event: fill, subscribe, unsubscribe, and perhaps refill."""

    filled: int  # filters granted before the run
    fill_s: float  # from the first SUBSCRIBE to the last SUBACK
    asked: dict[str, int]  # changes that were made
    refused: dict[str, dict[int, int]]  # reason codes but 0 and how many filters each; from 128 on they are failures
    standing: int  # filters that the broker has at the end, by its own word
    unsent: int = 0  # changes that were due, but not handed to the kernel
    unanswered: int = 0
    refilled: int = 0  # filters granted anew to clients that came back
    unexpected: int = 0  # messages that came, though no filter matches the load
    lag_buckets: tuple[tuple[int, int], ...] = ()  # histogram of sent - intended in the measure phase
    lag_max_ns: int = 0


@dataclass(frozen=True, slots=True)
class Stopped:
    """What a worker says of itself at the end."""

    messages: int  # published or received
    cpu_ns: int  # of the process, from the last Go to the end of the schedule
    wall_ns: int
    closed_by_broker: tuple[str, ...] = ()  # "client: reason"
    unsent: int = 0  # due, but not handed to the kernel when the run ended
    untaken: int = 0  # of these: by publishers whose socket was full, who had no room in flight, or no connection
    lag_buckets: tuple[tuple[int, int], ...] = ()  # histogram of sent - intended in the measure phase
    lag_max_ns: int = 0
    acknowledgements: dict[str, int] = field(default_factory=dict)
    retransmissions: int = 0  # QoS 2 messages that came again before they were released
    resent: int = 0  # with DUP, after a session was taken up again
    refused_connects: int = 0  # connections that failed in the run; each was tried again
    connect_lag_buckets: tuple[tuple[int, int], ...] = ()  # connections that were due at a time: begun less due
    connect_lag_max_ns: int = 0
    waited: int = 0  # of the measure phase: due while as many were in flight as may be, and sent when there was room
    written_off: int = 0  # outstanding messages that the window stopped waiting for
    backlog_bytes: float | None = None  # unread in the fullest socket, mean of the measure phase
    receive_lag_buckets: tuple[tuple[int, int], ...] = ()  # subscribers: read less arrived, per read, measure phase
    receive_lag_max_ns: int = 0
    wire_bytes: int = 0  # of publishers: of all their PUBLISH packets, from the first byte to the last
    first_ns: int = 0  # of publishers that a control message started: when the first message was handed over
    heard: int = 0  # of a publishing worker whose clients also hear: messages received
    device_buckets: tuple[tuple[int, int], ...] = ()  # of devices: answered less received, measure phase
    device_max_ns: int = 0
    table: TableFacts | None = None  # of the worker that fills the broker's table
    window: int | None = None  # of a saturating publisher: the size at the end
    window_steps: tuple[tuple[int, float], ...] = ()  # the sizes that were tried, and deliveries a second at each
    window_settled_ns: int | None = None  # after the first message; null if the size was fixed, or never settled
    is_window_cut_short: bool = False  # the warm-up ended while twice the size still brought much more
    is_widest_window_narrow: bool = False  # the widest that is tried still left the broker idle
    reading_pause_s: float | None = None  # of a saturated subscriber that keeps a pace (pace.py): at the end
    away: int | None = None  # clients that waited for their next connection at the end; None where each message has one
    closes: tuple[Closed, ...] = ()  # of publishers that close at once after each message
    held: Held = Held()


@dataclass(frozen=True, slots=True)
class Failed:
    """The worker gave up; the text is for the user."""

    message: str
    is_ours: bool = False  # a bug of brokerlab, with its traceback in the text
    hint: str | None = None  # what the user is to do about a failure that is no broker's; None of a broker's
