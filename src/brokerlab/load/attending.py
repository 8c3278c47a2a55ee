"""What roles have in common whose clients exchange small packets with the broker, and no load."""

import select
from abc import ABC, abstractmethod
from typing import Generic, Protocol, TypeVar

from brokerlab.load.alarm import now_ns
from brokerlab.load.connection import Session
from brokerlab.load.opening import Openings
from brokerlab.load.outbox import Handed, Outbox
from brokerlab.load.pings import PINGREQ
from brokerlab.load.role import Connections, Say
from brokerlab.load.sessionlog import SessionLog
from brokerlab.load.spec import Client, Connect, Connected, WorkerSpec
from brokerlab.load.stream import Stream


class Attended(Protocol):
    """One client."""

    client: Client
    stream: Stream
    outbox: Outbox


One = TypeVar("One", bound=Attended)


class Attending(ABC, Generic[One]):
    """The connections of a worker's clients: opened, kept alive, read and written as they allow."""

    def __init__(
        self, spec: WorkerSpec, connections: Connections, log: SessionLog, say: Say, *, buffer_bytes: int
    ) -> None:
        self._spec, self._connections, self._log, self._say = spec, connections, log, say
        self._open: dict[int, One] = {}  # by file descriptor
        self._openings: Openings | None = None
        self._is_going = False
        self._buffer = memoryview(bytearray(buffer_bytes))

    # -- what a role says of its clients --------------------------------------------------------------------------

    @abstractmethod
    def _attended(self, session: Session) -> One:
        """The client of a connection that stands; in the run it is another one of a client that was there before."""

    @abstractmethod
    def _heard(self, fd: int, each: One, data: bytes, arrived_ns: int) -> None:
        """Takes what the broker sent; an OSError ends the connection."""

    def _handed(self, each: One) -> Handed | None:
        """What to do with the times at which a client's packets were handed over."""
        del each
        return None

    def _came_back(self, fd: int, each: One) -> None:
        """What a client does first whose connection is its next one."""

    def _lost(self, each: One) -> None:
        """Sees to what follows from the end of a connection that was not planned."""

    # -- the connections ------------------------------------------------------------------------------------------

    def connect(self, order: Connect) -> None:
        self._openings = Openings(
            self._spec, self._connections.epoll, self._log, opened=self._opened, timeout_s=order.timeout_s
        )
        self._openings.ask_all(order)

    def _opened(self, session: Session) -> None:
        self._connections.add(session.client, session.stream, keep_alive_s=session.keep_alive_s)
        each = self._open[session.stream.fileno()] = self._attended(session)
        if self._is_going:
            self._came_back(session.stream.fileno(), each)
        elif len(self._open) == len(self._spec.clients):
            self._say(Connected())

    def _begin(self) -> None:
        """The run begins: from now on clients come back, where they do."""
        self._is_going = True
        if self._openings is not None:
            self._openings.go()

    def _end_openings(self) -> int:
        """Nobody comes back any more; how many clients were about to."""
        away = 0
        if self._openings is not None:
            away = len(self._openings)
            self._openings.close()
        return away

    def ready(self, fd: int, event: int) -> None:
        if self._openings and fd in self._openings:
            self._openings.ready(fd)
            return
        each = self._open[fd]
        if event & select.EPOLLOUT:
            self._push(fd, each)
        if event & ~select.EPOLLOUT and fd in self._open:
            self._read(fd, each)
            while fd in self._open and each.stream.has_more:
                self._read(fd, each)

    def _ping(self, fd: int) -> None:
        self._open[fd].outbox.put(memoryview(PINGREQ))
        self._push(fd, self._open[fd])

    def _push(self, fd: int, each: One) -> None:
        try:
            self._connections.want_write(fd, not each.outbox.push(self._handed(each)))
        except OSError as problem:
            self._lose(fd, problem)

    def _read(self, fd: int, each: One) -> None:
        try:
            count, arrived_ns = each.stream.read(self._buffer)
            if not count:
                raise ConnectionResetError("the broker closed the connection")
            self._heard(fd, each, bytes(self._buffer[:count]), arrived_ns)
        except BlockingIOError:
            return  # nothing to read after all: epoll may wake for less (epoll(7))
        except OSError as problem:
            self._lose(fd, problem)

    def _lose(self, fd: int, problem: OSError) -> None:
        each = self._open.pop(fd)
        self._connections.lost(fd, str(problem))
        each.stream.close()
        self._lost(each)
        if self._is_going and self._spec.workload.clients.reconnect and self._openings is not None:
            self._openings.ask(each.client, due_ns=now_ns())
