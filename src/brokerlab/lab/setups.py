"""The set-ups of a generator that are calibrated apart: what decides how much work one message is for the meter."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from brokerlab.lab.kinds import has_none, unmeasured
from brokerlab.lab.reach import read_reach
from brokerlab.study.identity import largest_payload_bytes, payload_sizes
from brokerlab.study.mqtt5_values import Mqtt5
from brokerlab.study.nearest import listed
from brokerlab.study.placing import most_at_a_node
from brokerlab.study.plan import Cell
from brokerlab.study.population import population
from brokerlab.study.quantity import bytes_text, seconds_text
from brokerlab.study.values import (
    AUTO,
    PER_MESSAGE,
    Arrivals,
    Behaviour,
    ClientLife,
    Content,
    Payload,
    Roles,
    Schedule,
    SessionKind,
    Topics,
    Transport,
    Workload,
)

Json = dict[str, Any]
MOST_BYTES = 16 << 20  # of payloads
MOST_CONNECTIONS = MOST_TOPICS = 10_000
MOST_AT_ONCE_BYTES = 4 << 30  # payloads, one of each connection: what loopback carries in a few seconds
_ROUNDED_BYTES = 256 << 20  # likewise: what connections may take that no run has
_EACH_S = 0.0003  # of a measurement, at least, for each of its connections
_ALWAYS = ("payload_bytes", "transport", "protocol", "publishers", "subscribers")
_USUAL = Mqtt5()
# Subscribers are played messages of publisher 0, to the first of its topics.
_ONE_TOPIC = Topics("null/{publisher}", "null/+", reply="null-echo/{publisher}")
_MANY_TOPICS = replace(_ONE_TOPIC, publish="null/{publisher}/{topic}", subscribe="null/+/+")


@dataclass(frozen=True, slots=True)
class SetUp:
    """One worker that publishes, another that receives, and what their messages look like."""

    payload_bytes: int = 64
    transport: Transport = Transport.TCP
    protocol: str = "3.1.1"
    publishers: int = 1  # connections of the worker that publishes
    subscribers: int = 1
    mqtt5: Mqtt5 = _USUAL
    template: str | None = None  # of JSON, which takes more work to write and to read
    is_replay: bool = False  # whether messages are records of a file
    mix: tuple[tuple[int, float], ...] = ()  # sizes and their shares, where a message may have one of several
    each: tuple[int, ...] = ()  # sizes by publisher, where they differ
    topics: int = 1  # of each publisher
    saturates: bool = False  # whether a window is kept full, and subscribers gather what comes
    window: int | None = None  # of a saturated load; None: the widest that is looked for
    inflight: int | None = None  # messages of a publisher at QoS 1 and 2; None: as many as MQTT allows
    refills: bool = False  # whether publishers keep that many in flight, and no schedule
    keeps_session: bool = False
    behaviour: Behaviour = Behaviour.PERSISTENT  # of publishers: a connection for all their messages, or for each
    loops: bool = False  # whether publishers hear their own messages, and nobody else does
    answers: int | None = None  # the QoS at which devices answer, as many as publish; None: there are none

    @property
    def facts(self) -> Json:
        """As a calibration and a manifest have it; what is not _ALWAYS there is named where it is not usual."""
        said = asdict(self) | {"transport": str(self.transport), "behaviour": str(self.behaviour)}
        usual = asdict(USUAL)
        return {name: value for name, value in said.items() if name in _ALWAYS or value != usual[name]}

    @property
    def is_closed(self) -> bool:
        """Whether its publishers keep no schedule."""
        return self.saturates or self.refills

    @property
    def text(self) -> str:
        """For people; that of no other set-up is the same."""
        said = f"{bytes_text(self.payload_bytes)}{_content_text(self)} over {str(self.transport).upper()}"
        said += f", MQTT {self.protocol}"
        if self.mqtt5 != _USUAL:
            said += f" with {listed(tuple(_added(self.mqtt5)))}"
        said += "".join(f", {each}" for each in _way(self))
        if max(self.publishers, self.subscribers) > 1:
            said += f", {self.publishers:,} publishers and {self.subscribers:,} subscribers"
        return said


USUAL = SetUp()


def _content_text(setup: SetUp) -> str:
    """Templates and lists of sizes are long: a few digits of their hash tell them apart."""
    written = "" if setup.template is None else f" of JSON ({_digits(setup.template)})"
    if setup.mix:
        written += f" and less in a mix ({_digits(str(setup.mix))})"
    if setup.each:
        written += f" and less by publisher ({_digits(str(setup.each))})"
    return written + (" from a file" if setup.is_replay else "")


def _digits(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _way(setup: SetUp) -> Iterator[str]:
    """What is not usual of how clients work."""
    if setup.topics > 1:
        yield f"{setup.topics:,} topics each"
    if setup.saturates:
        yield "saturated" + (f" through a window of {setup.window:,}" if setup.window else "")
    if setup.inflight:
        yield f"{setup.inflight:,} {'kept' if setup.refills else 'at most'} in flight"
    if setup.keeps_session:
        yield "sessions that last"
    if setup.loops:
        yield "clients that hear their own messages"
    if setup.answers is not None:
        yield f"devices that answer at QoS {setup.answers}"
    if setup.behaviour in PER_MESSAGE:
        yield "a connection for each message" + (
            "" if setup.behaviour is Behaviour.PER_MESSAGE else ", closed abruptly"
        )


def _added(mqtt5: Mqtt5) -> Iterator[str]:
    """What is not usual of it."""
    for each in fields(mqtt5):
        value, name = getattr(mqtt5, each.name), each.name
        if value == each.default:
            continue
        if name == "user_properties":
            yield f"{value} user properties"
        elif name == "property_bytes":
            yield f"properties of {bytes_text(value)}"
        elif name.endswith("_s"):
            yield f"{name.removesuffix('_s').replace('_', ' ')} {seconds_text(value)}"
        else:
            yield name.replace("_", " ") + ("" if value is True else f" {value}")


def setup_from(facts: Json) -> SetUp:
    """The set-up of a calibration, also of one that was kept before there were several."""
    return SetUp(
        payload_bytes=int(facts.get("payload_bytes", USUAL.payload_bytes)),
        transport=Transport(facts.get("transport", USUAL.transport)),
        protocol=str(facts.get("protocol", USUAL.protocol)),
        publishers=int(facts.get("publishers", 1)),
        subscribers=int(facts.get("subscribers", 1)),
        mqtt5=Mqtt5(**facts.get("mqtt5", {})),
        template=facts.get("template"),
        is_replay=bool(facts.get("is_replay", False)),
        mix=tuple((int(size), float(share)) for size, share in facts.get("mix", ())),
        each=tuple(map(int, facts.get("each", ()))),
        topics=int(facts.get("topics", 1)),
        saturates=bool(facts.get("saturates", False)),
        window=facts.get("window"),
        inflight=facts.get("inflight"),
        refills=bool(facts.get("refills", False)),
        keeps_session=bool(facts.get("keeps_session", False)),
        behaviour=Behaviour(facts.get("behaviour", USUAL.behaviour)),
        loops=bool(facts.get("loops", False)),
        answers=facts.get("answers"),
    )


def workload_of(setup: SetUp) -> Workload:
    """The load that the null broker is for."""
    session = SessionKind.PERSISTENT if setup.keeps_session else SessionKind.CLEAN
    content = Content.RANDOM if setup.template is None else Content.JSON
    return Workload(
        publishers=setup.publishers,
        subscribers=setup.subscribers,
        topics=replace(_MANY_TOPICS, count=setup.topics) if setup.topics > 1 else _ONE_TOPIC,
        payload_bytes=setup.payload_bytes,
        payload=Payload(content, setup.template, mix=setup.mix, each=setup.each),
        schedule=Schedule(inflight=setup.inflight),
        protocol=setup.protocol,
        transport=setup.transport,
        clients=ClientLife(setup.behaviour, session=session),
        mqtt5=setup.mqtt5,
    )


def lasting_s(seconds: float, connections: int) -> float:
    """How long a measurement of so many connections lasts where one is to take `seconds`.

    The first messages of each touch memory for the first time: what 10,000 do in 0.3 s is half of what they do later.
    """
    return max(seconds, _EACH_S * connections)


def why_not(setup: SetUp) -> str:
    """Why this set-up cannot be calibrated; empty if it can."""
    if setup.is_replay:
        return "messages that are records of a file are not calibrated: the null broker has no such file"
    if setup.payload_bytes > MOST_BYTES:
        return f"payloads over {bytes_text(MOST_BYTES)} are not calibrated"
    connections = max(setup.publishers, setup.subscribers)
    if connections * setup.payload_bytes > MOST_AT_ONCE_BYTES:
        size = bytes_text(setup.payload_bytes)
        return f"payloads of {size} over {connections:,} connections are not calibrated: that is too much at once"
    return ""


def setup_of(cell: Cell) -> SetUp:
    """The set-up that the workers of a cell are beside: as many connections as the largest has, or more.

    Publishers that wait for an answer are as many or fewer.
    """
    load = cell.workload
    payload_bytes = largest_payload_bytes(load)
    publishers, subscribers = _most_of_a_worker(cell)
    differ = len(set(payload_sizes(load))) > 1
    loop = _loop_of(load)
    is_single = load.clients.behaviour in PER_MESSAGE
    waits = is_single or "inflight" in loop  # then more publishers are faster: none that the load has not
    return SetUp(
        payload_bytes=payload_bytes,
        transport=load.transport,
        protocol=load.protocol,
        publishers=_rounded_down(publishers) if waits else _rounded(publishers, payload_bytes),
        subscribers=_rounded(subscribers, payload_bytes),
        mqtt5=replace(load.mqtt5, session_expiry_s=None) if load.protocol == "5.0" else _USUAL,
        template=load.payload.template if load.payload.content is Content.JSON else None,
        is_replay=load.payload.replay is not None,
        mix=load.payload.mix if differ else (),
        each=load.payload.each if differ else (),
        topics=_power_of_ten(min(load.topics.count, MOST_TOPICS)),
        keeps_session=load.clients.session is SessionKind.PERSISTENT,
        behaviour=load.clients.behaviour if is_single else Behaviour.PERSISTENT,
        loops=load.role is Roles.LOOP,
        answers=int(load.echo.qos) if load.role is Roles.ECHO else None,
        **loop,
    )


def _loop_of(load: Workload) -> dict[str, Any]:
    """What publishers wait for; windows are rounded down to a power of two, so that no ceiling is above the load's."""
    schedule = load.schedule
    if schedule.arrivals is Arrivals.SATURATE:
        return {"saturates": True, "window": None if schedule.window == AUTO else _power_of_two(int(schedule.window))}
    if not load.qos or schedule.inflight is None:
        return {}
    return {"inflight": _power_of_two(schedule.inflight), "refills": schedule.arrivals is Arrivals.WINDOW}


def _power_of_two(count: int) -> int:
    return int(1 << (count.bit_length() - 1))


def _power_of_ten(count: int) -> int:
    power = 1
    while power < count:
        power *= 10
    return power


def _most_of_a_worker(cell: Cell) -> tuple[int, int]:
    """Connections of the worker with the most that publish, and of that with the most that receive."""
    parts = population(cell.workload)
    loops = parts.get("loops", 0)
    return most_at_a_node(
        cell.workload.placement,
        publishers=parts.get("publishers", loops),
        subscribers=parts.get("subscribers", loops),
        nodes=cell.ensemble.nodes,
    )


def _rounded(connections: int, payload_bytes: int) -> int:
    """A power of ten where this machine can have so many of them; never fewer than there are, to MOST_CONNECTIONS."""
    own = min(connections, MOST_CONNECTIONS)
    return max(own, min(_power_of_ten(own), connections_here(), _ROUNDED_BYTES // max(1, payload_bytes)))


def _rounded_down(connections: int) -> int:
    return _power_of_two(min(connections, MOST_CONNECTIONS))


def connections_here() -> int:
    """How many a worker can have to a broker on this machine; what does not change while it runs."""
    reach = read_reach()
    return min(reach.open_files, reach.ports)


def setups_of(cells: Iterable[Cell]) -> dict[SetUp, list[int]]:
    """Every set-up of these cells that ceilings are measured of, in their order, with the QoS that it is used at."""
    levels: dict[SetUp, set[int]] = {}
    for cell in cells:
        if has_none(unmeasured(cell)):
            continue
        levels.setdefault(setup_of(cell), set()).add(int(cell.workload.qos))
    return {each: sorted(found) for each, found in levels.items()}
