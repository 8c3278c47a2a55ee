"""The set-ups of a generator that are calibrated apart: what decides how much work one message is for the meter."""

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from brokerlab.lab.kinds import has_none, unmeasured
from brokerlab.lab.reach import read_reach
from brokerlab.study.identity import largest_payload_bytes
from brokerlab.study.mqtt5_values import Mqtt5
from brokerlab.study.nearest import listed
from brokerlab.study.placing import most_at_a_node
from brokerlab.study.plan import Cell
from brokerlab.study.population import population
from brokerlab.study.quantity import bytes_text, seconds_text
from brokerlab.study.values import Arrivals, Content, Payload, Transport, Workload

Json = dict[str, Any]
LEAST_BYTES, MOST_BYTES = 16, 16 << 20  # of payloads: a shorter one has no place for its whole identity
MOST_CONNECTIONS = 10_000
MOST_AT_ONCE_BYTES = 4 << 30  # payloads, one of each connection: what loopback carries in a few seconds
_ROUNDED_BYTES = 256 << 20  # likewise: what connections may take that no run has
_EACH_S = 0.0003  # of a measurement, at least, for each of its connections
_ALWAYS = ("payload_bytes", "transport", "protocol", "publishers", "subscribers")
_USUAL = Mqtt5()


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
    saturates: bool = False  # whether subscribers gather what comes, as they do where a window is kept full

    @property
    def facts(self) -> Json:
        """As a calibration and a manifest have it; what is not _ALWAYS there is named where it is not usual."""
        said = asdict(self) | {"transport": str(self.transport)}
        usual = asdict(USUAL)
        return {name: value for name, value in said.items() if name in _ALWAYS or value != usual[name]}

    @property
    def text(self) -> str:
        """For people; that of no other set-up is the same."""
        said = f"{bytes_text(self.payload_bytes)}{_content_text(self)} over {str(self.transport).upper()}"
        said += f", MQTT {self.protocol}"
        if self.mqtt5 != _USUAL:
            said += f" with {listed(tuple(_added(self.mqtt5)))}"
        if self.saturates:
            said += ", saturated"
        if max(self.publishers, self.subscribers) > 1:
            said += f", {self.publishers:,} publishers and {self.subscribers:,} subscribers"
        return said


USUAL = SetUp()


def _content_text(setup: SetUp) -> str:
    """Templates are long: a few digits of their hash tell them apart."""
    template = setup.template
    written = "" if template is None else f" of JSON ({hashlib.sha256(template.encode()).hexdigest()[:8]})"
    return written + (" from a file" if setup.is_replay else "")


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
        saturates=bool(facts.get("saturates", False)),
    )


def workload_of(setup: SetUp) -> Workload:
    """The load that the null broker is for."""
    return Workload(
        publishers=setup.publishers,
        subscribers=setup.subscribers,
        payload_bytes=setup.payload_bytes,
        payload=Payload() if setup.template is None else Payload(Content.JSON, setup.template),
        protocol=setup.protocol,
        transport=setup.transport,
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
    """The set-up that the workers of a cell are beside: as many connections as the largest has, or more."""
    load = cell.workload
    payload_bytes = max(LEAST_BYTES, largest_payload_bytes(load))
    publishers, subscribers = _most_of_a_worker(cell)
    return SetUp(
        payload_bytes=payload_bytes,
        transport=load.transport,
        protocol=load.protocol,
        publishers=_rounded(publishers, payload_bytes),
        subscribers=_rounded(subscribers, payload_bytes),
        mqtt5=replace(load.mqtt5, session_expiry_s=None) if load.protocol == "5.0" else _USUAL,
        template=load.payload.template if load.payload.content is Content.JSON else None,
        is_replay=load.payload.replay is not None,
        saturates=load.schedule.arrivals is Arrivals.SATURATE,
    )


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
    own, power = min(connections, MOST_CONNECTIONS), 1
    while power < own:
        power *= 10
    return max(own, min(power, connections_here(), _ROUNDED_BYTES // payload_bytes))


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
