"""What a worker's event loop asks of its role, and what both roles share."""

import select
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from brokerlab.load.pings import Pings
from brokerlab.load.resting import Rest
from brokerlab.load.sessionlog import SessionLog
from brokerlab.load.spec import (
    Began,
    Client,
    Connect,
    Connected,
    Drain,
    Go,
    Left,
    Sent,
    Settled,
    Stock,
    Stopped,
    Subscribe,
    Subscribed,
)
from brokerlab.load.stalls import Stalls
from brokerlab.load.stream import Stream

Report = Connected | Subscribed | Began | Sent | Settled | Left
Say = Callable[[Report], None]
Events = list[tuple[int, int]]  # file descriptor and what epoll says of it
Do = Callable[[int, Callable[[], object]], None]  # whose socket, and what is to be done with it


class Role(Protocol):
    """A worker's job; the loop calls `tick` whenever it wakes and `ready` for each of the role's sockets."""

    @property
    def gather_s(self) -> float:
        """How long the loop lets the kernel gather before it looks at the sockets again; 0 is not at all."""
        ...

    @property
    def rest(self) -> Rest:
        """How it sleeps where something is due soon."""
        ...

    def connect(self, order: Connect, /) -> None:
        """Begins to connect; says Connected when every client is."""
        ...

    def subscribe(self, order: Subscribe, /) -> None:
        """Begins to subscribe; says Subscribed when every subscriber has its answer."""
        ...

    def go(self, order: Go, /) -> None: ...

    def retime(self, order: Go, /) -> None:
        """Learns the true times of what it goes by; nothing was due before them."""
        ...

    def drain(self, order: Drain, /) -> None: ...

    def halt(self) -> None: ...

    def stock(self) -> Stock: ...

    def tick(self, now: int) -> int | None:
        """Does what is due; when it wants to be called again at the latest."""
        ...

    def ready(self, fd: int, event: int) -> None: ...

    def close(self) -> Stopped: ...


@runtime_checkable
class Stormy(Protocol):
    """A role whose clients can lose their connections all at once."""

    def storm(self) -> None: ...


@runtime_checkable
class Watching(Protocol):
    """A role that can serve many of its sockets at once, with the pauses in between."""

    def watch(self, pause_s: float) -> Events | None:
        """Sleeps and serves whom it can, some times, and says what is left to do; None where it cannot do so now.

        `pause_s` is how long to gather, 0 where nothing is gathered.
        """
        ...


@runtime_checkable
class Together(Protocol):
    """A role that can serve many of its sockets at once when they have something for it."""

    def ready_together(self, events: Events) -> Events:
        """Serves whom it can; the others are to be served one by one."""
        ...


class Connections:
    """The open sockets of a worker, by file descriptor, and which of them wait until they can be written."""

    def __init__(self, epoll: select.epoll, log: SessionLog, *, keep_alive_s: int = 60, orders_fd: int = -1) -> None:
        """`orders_fd` can be read when the lab has an order for the worker; `stalls` is told of every sleep."""
        self.epoll, self._log, self.orders_fd = epoll, log, orders_fd
        self.stalls = Stalls()
        self._writing: set[int] = set()
        self._deaf: set[int] = set()
        self.open: dict[int, Client] = {}
        self.closed_by_broker: list[str] = []
        self._pings = Pings(keep_alive_s)

    def add(self, client: Client, stream: Stream, *, keep_alive_s: int) -> None:
        """Takes over a stream that the epoll watches; the shortest keep-alive that a broker asks for is that of all."""
        self._pings.add(stream.fileno(), keep_alive_s=keep_alive_s)
        self.open[stream.fileno()] = client

    def want_write(self, fd: int, wanted: bool) -> None:
        """Has the loop call `ready` when the socket takes bytes again, or no longer."""
        if wanted != (fd in self._writing):
            (self._writing.add if wanted else self._writing.discard)(fd)
            self._modify(fd)

    def want_read(self, fd: int, wanted: bool) -> None:
        """Has the loop call `ready` when something can be read, or no longer; the end of a connection always shows."""
        (self._deaf.discard if wanted else self._deaf.add)(fd)
        self._modify(fd)

    def _modify(self, fd: int) -> None:
        events = (0 if fd in self._deaf else select.EPOLLIN) | (select.EPOLLOUT if fd in self._writing else 0)
        self.epoll.modify(fd, events)

    @property
    def is_writing(self) -> bool:
        """Whether anybody waits until its socket takes bytes again."""
        return bool(self._writing)

    def lost(self, fd: int, reason: str) -> None:
        """Takes note that the broker ended a connection; the others go on."""
        client = self.open.pop(fd)
        self._writing.discard(fd)
        self._deaf.discard(fd)
        self.epoll.unregister(fd)
        self._log.add(client, "closed by broker")
        self.closed_by_broker.append(f"{client.name}: {reason}")

    def part(self, fd: int) -> None:
        """Forgets a connection that ends by plan; its stream is the caller's to close."""
        del self.open[fd]
        self._writing.discard(fd)
        self._deaf.discard(fd)
        self.epoll.unregister(fd)

    @property
    def ping_pause_ns(self) -> int:
        """Who has sent nothing for so long pings in its turn; less than from turn to turn, as one may be late."""
        return self._pings.every_ns * 3 // 4

    def due_for_ping(self, now: int) -> list[int]:
        """The connections that are due a ping, each every third of the keep-alive."""
        return self._pings.due(now, self.open)

    def longest_sleep_s(self, now: int, at_most_s: float) -> float:
        """How long the loop may sleep without having asked who is due a ping."""
        look_ns = self._pings.look_ns
        return at_most_s if look_ns is None else min(at_most_s, max(0, look_ns - now) / 1e9)
