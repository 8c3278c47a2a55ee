"""What makes the clients of a publishing worker hear over the connections that they publish on."""

from collections.abc import Callable
from dataclasses import dataclass

from brokerlab.load.messages import Messages, messages_of
from brokerlab.load.others import Others
from brokerlab.load.publisher import Publisher
from brokerlab.load.spec import Client, WorkerSpec

_BUFFER_BYTES = 1 << 18
_HEAD_BYTES = 1 << 20  # topic and properties at their longest, and room for what follows


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
        return 2 * spec.workload.payload_bytes + _HEAD_BYTES if self.listen else _BUFFER_BYTES


DEAF = Hearing()
