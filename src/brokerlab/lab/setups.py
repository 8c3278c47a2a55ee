"""The set-ups of a generator that are calibrated apart: what decides how much work one message is for the meter."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from brokerlab.study.identity import largest_payload_bytes
from brokerlab.study.mqtt5_values import Mqtt5
from brokerlab.study.plan import Cell
from brokerlab.study.quantity import bytes_text
from brokerlab.study.values import Transport

Json = dict[str, Any]
LEAST_BYTES, MOST_BYTES = 16, 16 << 20  # of payloads: a shorter one has no place for its whole identity
MOST_CONNECTIONS = 10_000
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

    @property
    def facts(self) -> Json:
        """As a calibration and a manifest have it; what MQTT 5.0 adds is named where it adds something."""
        said = asdict(self) | {"transport": str(self.transport)}
        del said["mqtt5"]
        return said | ({"mqtt5": asdict(self.mqtt5)} if self.mqtt5 != _USUAL else {})

    @property
    def text(self) -> str:
        """For people."""
        said = f"{bytes_text(self.payload_bytes)} over {str(self.transport).upper()}, MQTT {self.protocol}"
        if self.mqtt5 != _USUAL:
            said += " with what the study adds to its messages"
        if max(self.publishers, self.subscribers) > 1:
            said += f", {self.publishers:,} publishers and {self.subscribers:,} subscribers"
        return said


USUAL = SetUp()


def setup_from(facts: Json) -> SetUp:
    """The set-up of a calibration, also of one that was kept before there were several."""
    return SetUp(
        payload_bytes=int(facts.get("payload_bytes", USUAL.payload_bytes)),
        transport=Transport(facts.get("transport", USUAL.transport)),
        protocol=str(facts.get("protocol", USUAL.protocol)),
        publishers=int(facts.get("publishers", 1)),
        subscribers=int(facts.get("subscribers", 1)),
        mqtt5=Mqtt5(**facts.get("mqtt5", {})),
    )


def setup_of(cell: Cell) -> SetUp:
    """The set-up that the workers of a cell are beside: as many connections as theirs or more, in powers of ten."""
    load, nodes = cell.workload, cell.ensemble.nodes
    is_five = load.protocol == "5.0"
    return SetUp(
        payload_bytes=max(LEAST_BYTES, largest_payload_bytes(load)),
        transport=load.transport,
        protocol=load.protocol,
        publishers=_power_of_ten(-(-load.publishers // nodes)),
        subscribers=_power_of_ten(-(-load.subscribers // nodes)),
        mqtt5=replace(load.mqtt5, session_expiry_s=None) if is_five else _USUAL,
    )


def _power_of_ten(connections: int) -> int:
    power = 1
    while power < min(connections, MOST_CONNECTIONS):
        power *= 10
    return power


def setups_of(cells: Iterable[Cell]) -> dict[SetUp, list[int]]:
    """Every set-up of these cells, in their order, with the QoS that it is used at."""
    levels: dict[SetUp, set[int]] = {}
    for cell in cells:
        levels.setdefault(setup_of(cell), set()).add(int(cell.workload.qos))
    return {each: sorted(found) for each, found in levels.items()}
