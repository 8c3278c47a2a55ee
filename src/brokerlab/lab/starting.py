"""Starts the publishers of a run by control messages over its broker (C-02), and times how long that takes."""

import time
from collections.abc import Iterable
from dataclasses import dataclass

from brokerlab.lab.crossing import Door
from brokerlab.load.crew import Crew
from brokerlab.load.spec import Go, Stopped
from brokerlab.load.starting import QOS, START, Settings
from brokerlab.study.topics import CONTROL_TOPIC
from brokerlab.study.values import Workload

ARRIVAL_S = 10.0  # the longest that the start message may take to the publishers


@dataclass(frozen=True, slots=True)
class Started:
    """A start that happened, and what it took."""

    order: Go  # with the times that the publishers keep
    commanded_ns: int  # when the start message was handed over
    messages: tuple[bytes, ...]  # payloads that were published for it

    def section(self, stopped: Iterable[Stopped]) -> dict[str, float | None]:
        """For the manifest: from the start command on."""
        first_ns = min((each.first_ns for each in stopped if each.first_ns), default=None)
        return {
            "command_to_arrival": (self.order.start_ns - self.commanded_ns) / 1e6,
            "command_to_first_message": None if first_ns is None else (first_ns - self.commanded_ns) / 1e6,
        }


def start_by_message(crew: Crew, held: Go, workload: Workload, *, door: Door) -> Started:
    """Has everybody ready, sends the two messages and tells all who hear when the publishers began.

    The times of the order must not be later than the true ones: what arrives is counted from the order on.
    """
    settings = Settings(
        workload.schedule.rate_per_s, held.measure_ns - held.start_ns, held.end_ns - held.measure_ns
    ).encode()
    topic = workload.topics.prefix + CONTROL_TOPIC
    with door.open(protocol=workload.protocol) as commander:
        crew.go(held)
        commander.publish(topic, settings, qos=QOS)
        commanded_ns = time.monotonic_ns()
        commander.publish(topic, START, qos=QOS)
        start_ns = crew.began(within_s=ARRIVAL_S)
        shift_ns = start_ns - held.start_ns
        order = Go(start_ns, held.measure_ns + shift_ns, held.end_ns + shift_ns, held.number)
        crew.retime(order)
    return Started(order, commanded_ns, (settings, START))
