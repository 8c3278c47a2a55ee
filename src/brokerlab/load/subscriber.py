"""One client of a subscribing worker: its connection, and what of a message is still under way."""

import numpy as np
from numpy.typing import NDArray

from brokerlab.load import wire
from brokerlab.load.alarm import now_ns
from brokerlab.load.outbox import Outbox
from brokerlab.load.passing import Passing
from brokerlab.load.resolver import Resolver
from brokerlab.load.room import Room
from brokerlab.load.spec import Client
from brokerlab.load.stream import Stream
from brokerlab.study.values import Qos


class Subscriber:
    """One client of a subscribing worker; a worker may have tens of thousands of them."""

    __slots__ = (
        "client",
        "emptied_ns",
        "empty_ns",
        "expected",
        "held",
        "highest",
        "looked_ns",
        "open_handshakes",
        "outbox",
        "passing",
        "room",
        "stream",
        "unread",
    )

    def __init__(self, client: Client, stream: Stream, *, qos: int, resolver: Resolver | None) -> None:
        self.client, self.stream = client, stream
        self.outbox = Outbox(stream)
        self.unread = b""
        self.room, self.looked_ns = Room(), now_ns()
        # QoS 2 identifiers that are not released yet
        self.held = np.zeros(wire.HELD_BYTES if qos == Qos.EXACTLY_ONCE else 0, dtype=np.uint8)
        self.open_handshakes = 0  # how many those were at the last count
        self.empty_ns = self.emptied_ns = now_ns()  # when the socket was last seen empty
        self.highest: NDArray[np.int64] | None = None  # sequence number by publisher, where the window wants to know
        self.passing: Passing | None = None  # a long packet that is on its way in
        self.expected = None if resolver is None else resolver.expected()

    def opened(self) -> int:
        """How many more handshakes of QoS 2 are open than at the last call."""
        before, self.open_handshakes = self.open_handshakes, wire.count_bits(self.held.view(np.uint64))
        return self.open_handshakes - before

    def note_empty(self, at_ns: int, *, is_gathered: bool) -> None:
        """The socket is empty. Where it is read seldom, the broker's kernel may have held back what comes next.

        It did so from the reading before on, until this one gave it room: what comes next may be as old as that.
        """
        self.empty_ns, self.emptied_ns = self.emptied_ns if is_gathered else at_ns, at_ns

    def look(self, got: int, elapsed_ns: int) -> None:
        """A look is over that brought so many bytes, and so long after the one before."""
        self.room = self.room.after(got, elapsed_ns, self.stream.socket)

    def come_back(self, stream: Stream, *, is_resumed: bool) -> None:
        """Goes on over another connection, with its session if the broker still has it."""
        self.stream, self.outbox, self.unread, self.passing = stream, Outbox(stream), b"", None
        self.empty_ns = self.emptied_ns = now_ns()
        if not is_resumed:
            self.held[:] = 0
