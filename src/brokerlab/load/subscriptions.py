"""The subscriptions of a worker's clients that wait for the broker's answer, all at once."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from brokerlab.errors import RunError
from brokerlab.load.alarm import now_ns
from brokerlab.load.broken import BrokenStreamError
from brokerlab.load.features5 import subscribe_properties
from brokerlab.load.packets import LEVELS, MalformedPacketError, SubAck, Subscribe, decode_length
from brokerlab.load.parser import Parser
from brokerlab.load.sessionlog import SessionLog
from brokerlab.load.spec import Client, Granted, Subscribed, WorkerSpec

_SUBACK = 9
_FILTERS_AT_ONCE = 500  # of one SUBSCRIBE


def is_suback(packet: NDArray[np.uint8]) -> bool:
    return int(packet[0]) >> 4 == _SUBACK


@dataclass(slots=True)
class _Asked:
    """The subscription of one client while it is under way."""

    client: Client
    at_ns: int
    codes: list[tuple[int, ...] | None]  # what was granted, by SUBSCRIBE: one has packet id 1, the next 2 and so on

    @property
    def is_complete(self) -> bool:
        return None not in self.codes


class Subscriptions:
    """Who asked when, and what was granted."""

    def __init__(self, spec: WorkerSpec, log: SessionLog, *, timeout_s: float) -> None:
        self._qos, self._level, self._log = spec.workload.qos, LEVELS[spec.workload.protocol], log
        self._timeout_s, self._mqtt5 = timeout_s, spec.workload.mqtt5
        self._asked: dict[int, _Asked] = {}  # by subscriber, in the order in which they asked
        self._granted: list[Granted] = []
        self._is_said = False

    @property
    def is_waiting(self) -> bool:
        return bool(self._asked)

    def ask(self, client: Client) -> memoryview:
        """The client's SUBSCRIBE, or several where it has many filters; their time runs from now on."""
        filters = client.filters or (client.topic,)
        parts = [filters[at : at + _FILTERS_AT_ONCE] for at in range(0, len(filters), _FILTERS_AT_ONCE)]
        properties = subscribe_properties(self._mqtt5, client)
        packets = [
            Subscribe(number, tuple((each, self._qos) for each in part), properties).encode(self._level)
            for number, part in enumerate(parts, start=1)
        ]
        self._asked[client.number] = _Asked(client, now_ns(), [None] * len(parts))
        return memoryview(b"".join(packets))

    def take(self, client: Client, stream: NDArray[np.uint8]) -> tuple[int, Subscribed | None]:
        """Reads the SUBACK at the beginning: its bytes, and all that was granted once it is the last."""
        packet = _first_packet(stream)
        try:
            (answer,) = Parser(self._level).feed(packet)
        except MalformedPacketError as problem:
            raise BrokenStreamError(f"the broker sent a malformed packet: {problem}") from problem
        asked = self._asked.get(client.number)
        if asked is None or not isinstance(answer, SubAck) or not _answers(answer, asked):
            raise RunError(f"{client.name}: the broker answered SUBSCRIBE with {answer}")
        lowest = min(answer.return_codes)
        self._log.add(client, "suback", began_ns=asked.at_ns, qos=lowest, code=max(answer.return_codes))
        asked.codes[answer.packet_id - 1] = answer.return_codes
        if not asked.is_complete:
            return len(packet), None
        del self._asked[client.number]
        if self._is_said:
            return len(packet), None
        codes = tuple(code for part in asked.codes for code in part or ())
        self._granted.append(Granted(client.number, codes, asked.at_ns))
        self._is_said = not self._asked
        return len(packet), Subscribed(tuple(self._granted)) if self._is_said else None

    def tick(self, now: int) -> int | None:
        """Looks for a client that has waited too long; when it wants to be called again at the latest."""
        while self._asked:
            asked = next(iter(self._asked.values()))
            deadline_ns = asked.at_ns + int(self._timeout_s * 1e9)
            if now < deadline_ns:
                return deadline_ns
            self._fail(asked.client, f"no answer to SUBSCRIBE: nothing came in {self._timeout_s:g} s")
        return None

    def lost(self, client: Client, problem: OSError) -> None:
        """The broker ended a connection, perhaps instead of an answer; or it answered with what is none."""
        if client.number in self._asked:
            is_ours = isinstance(problem, BrokenStreamError)
            self._fail(
                client,
                f"no answer to SUBSCRIBE: {problem}" if is_ours else "the broker closed the connection after SUBSCRIBE",
            )

    def forget(self, client: Client) -> None:
        """A connection ended by plan: its answer will not come."""
        self._asked.pop(client.number, None)

    def _fail(self, client: Client, reason: str) -> None:
        """Before the run it cannot begin without every subscription; in it the failure is an event."""
        asked = self._asked.pop(client.number)
        self._log.add(client, f"subscribe failed: {reason}", began_ns=asked.at_ns)
        if not self._is_said:
            raise RunError(f"{client.name}: {reason}")


def _answers(answer: SubAck, asked: _Asked) -> bool:
    """Whether it answers one of the packets, with a code for each filter, and for the first time."""
    number, filters = answer.packet_id, len(asked.client.filters) or 1
    if not 1 <= number <= len(asked.codes) or asked.codes[number - 1] is not None:
        return False
    return len(answer.return_codes) == min(_FILTERS_AT_ONCE, filters - (number - 1) * _FILTERS_AT_ONCE)


def _first_packet(stream: NDArray[np.uint8]) -> bytes:
    """The whole packet at the beginning of these bytes."""
    head = decode_length(stream[:5].tobytes(), 1)
    if head is None:
        raise ConnectionAbortedError("the broker sent half a packet")
    length, begin = head
    return stream[: begin + length].tobytes()
