"""What makes the clients of a publishing worker hear over the connections that they publish on."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from brokerlab.load.features5 import longest_properties
from brokerlab.load.messages import Messages, messages_of
from brokerlab.load.others import Others
from brokerlab.load.publisher import Publisher
from brokerlab.load.spec import Client, WorkerSpec
from brokerlab.load.wire import Bytes

_BUFFER_BYTES = 1 << 18
_HEAD_BYTES = 1 << 20  # topic and what a broker adds at their longest, and room for what follows


@dataclass(frozen=True, slots=True)
class Hearing:
    """Deaf, unless it is given ears."""

    listen: Callable[[Publisher], Others] | None = None  # gives a publisher what hears for it
    # Makes the messages of clients that keep no schedule, from the client and the level of the protocol.
    answers: Callable[[Client, int], Messages] | None = None

    def messages_of(self, client: Client, spec: WorkerSpec, *, level: int, aliases: int = 0) -> Messages:
        if self.answers:
            return self.answers(client, level)
        return messages_of(client, spec.workload, seed=spec.seed, level=level, aliases=aliases)

    def begin(self, publisher: Publisher) -> None:
        if self.listen:
            publisher.stream.stamp()
            publisher.others = self.listen(publisher)

    def room_bytes(self, spec: WorkerSpec) -> int:
        """The size of the buffer for what the broker sends: who hears needs room for the longest message."""
        if self.listen is None:
            return _BUFFER_BYTES
        properties = longest_properties(spec.clients[0], spec.workload)  # of one they are as long as of any other
        return 2 * (spec.workload.payload_bytes + properties) + _HEAD_BYTES


class Inbox:
    """Where publishers read what the broker sends, one after the other; it grows with a packet that is longer.

    Without room nothing is read, which looks like the end of the connection.
    """

    def __init__(self, size: int) -> None:
        self._resize(size)

    def _resize(self, size: int) -> None:
        self._buffer = bytearray(size)
        self.view: Bytes = np.frombuffer(self._buffer, dtype=np.uint8)

    def _is_full(self, publisher: Publisher) -> bool:
        return len(publisher.unread) >= len(self._buffer)

    def read(self, publisher: Publisher, out: Bytes) -> None:
        if self._is_full(publisher):
            self._resize(2 * len(self._buffer))
        publisher.read(self._buffer, self.view, out)

    def read_rest(self, publisher: Publisher, problem: OSError, out: Bytes) -> None:
        """All that had arrived when the connection ended."""
        publisher.read_rest(problem, self._buffer, self.view, out)
        while self._is_full(publisher):
            self._resize(2 * len(self._buffer))
            publisher.read_rest(problem, self._buffer, self.view, out)


DEAF = Hearing()
