"""The subscriptions of a worker's clients that wait for the broker's answer, all at once."""

import numpy as np
from numpy.typing import NDArray

from brokerlab.errors import RunError
from brokerlab.load.alarm import now_ns
from brokerlab.load.packets import LEVELS, MalformedPacketError, SubAck, Subscribe, decode_length
from brokerlab.load.parser import Parser
from brokerlab.load.sessionlog import SessionLog
from brokerlab.load.spec import Client, Subscribed, WorkerSpec

_SUBACK = 9
_PACKET_ID = 1


def is_suback(packet: NDArray[np.uint8]) -> bool:
    return int(packet[0]) >> 4 == _SUBACK


class Subscriptions:
    """Who asked when, and what was granted."""

    def __init__(self, spec: WorkerSpec, log: SessionLog, *, timeout_s: float) -> None:
        self._qos, self._level, self._log = spec.workload.qos, LEVELS[spec.workload.protocol], log
        self._timeout_s = timeout_s
        self._asked_ns: dict[int, int] = {}  # by subscriber, in the order in which they asked
        self._clients: dict[int, Client] = {}
        self._granted: list[tuple[int, int]] = []
        self._is_said = False

    @property
    def is_waiting(self) -> bool:
        return bool(self._asked_ns)

    def ask(self, client: Client) -> memoryview:
        """The client's SUBSCRIBE, whose time runs from now on."""
        self._asked_ns[client.number], self._clients[client.number] = now_ns(), client
        return memoryview(Subscribe(_PACKET_ID, ((client.topic, self._qos),)).encode(self._level))

    def take(self, client: Client, stream: NDArray[np.uint8]) -> tuple[int, Subscribed | None]:
        """Reads the SUBACK at the beginning: its bytes, and all that was granted once it is the last."""
        packet = _first_packet(stream)
        try:
            (answer,) = Parser(self._level).feed(packet)
        except MalformedPacketError as problem:
            raise ConnectionAbortedError(f"the broker sent a malformed packet: {problem}") from problem
        asked_ns = self._asked_ns.pop(client.number, None)
        if asked_ns is None or not isinstance(answer, SubAck) or len(answer.return_codes) != 1:
            raise RunError(f"{client.name}: the broker answered SUBSCRIBE with {answer}")
        code = answer.return_codes[0]
        self._log.add(client, "suback", began_ns=asked_ns, qos=code, code=code)
        if self._is_said:
            return len(packet), None
        self._granted.append((client.number, code))
        self._is_said = not self._asked_ns
        return len(packet), Subscribed(tuple(self._granted)) if self._is_said else None

    def tick(self, now: int) -> int | None:
        """Looks for a client that has waited too long; when it wants to be called again at the latest."""
        while self._asked_ns:
            number, asked_ns = next(iter(self._asked_ns.items()))
            deadline_ns = asked_ns + int(self._timeout_s * 1e9)
            if now < deadline_ns:
                return deadline_ns
            self._fail(self._clients[number], f"no answer to SUBSCRIBE: nothing came in {self._timeout_s:g} s")
        return None

    def lost(self, client: Client) -> None:
        """The broker ended a connection, perhaps instead of an answer."""
        if client.number in self._asked_ns:
            self._fail(client, "the broker closed the connection after SUBSCRIBE")

    def forget(self, client: Client) -> None:
        """A connection ended by plan: its answer will not come."""
        self._asked_ns.pop(client.number, None)

    def _fail(self, client: Client, reason: str) -> None:
        """Before the run it cannot begin without every subscription; in it the failure is an event."""
        asked_ns = self._asked_ns.pop(client.number)
        self._log.add(client, f"subscribe failed: {reason}", began_ns=asked_ns)
        if not self._is_said:
            raise RunError(f"{client.name}: {reason}")


def _first_packet(stream: NDArray[np.uint8]) -> bytes:
    """The whole packet at the beginning of these bytes."""
    head = decode_length(stream[:5].tobytes(), 1)
    if head is None:
        raise ConnectionAbortedError("the broker sent half a packet")
    length, begin = head
    return stream[: begin + length].tobytes()
