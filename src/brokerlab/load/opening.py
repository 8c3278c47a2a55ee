r"""Opening connections, many at once and without waiting for any: TCP, then the stream's handshakes, then CONNECT.

    ask(client, due)  ->  waiting  ->  connecting  ->  shaking  ->  asked  ->  opened(session)
                                            \____________\____________\__->  failed(client, failure)

Every client has a deadline of its own, from the moment at which its connection is begun.
"""

import contextlib
import errno
import heapq
import os
import select
import socket
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from brokerlab.errors import RunError, UserError
from brokerlab.load.alarm import now_ns
from brokerlab.load.connection import Session, note_stages, session_of
from brokerlab.load.features5 import connect_properties
from brokerlab.load.lag import Lag
from brokerlab.load.packets import LEVELS, Connect, MalformedPacketError, Packet, decode_length
from brokerlab.load.parser import Parser
from brokerlab.load.sessionlog import SessionLog
from brokerlab.load.spec import Client, WorkerSpec
from brokerlab.load.spec import Connect as Order
from brokerlab.load.stream import Stream, Wait, stream_of
from brokerlab.load.wills import will_of
from brokerlab.study.address import written_address
from brokerlab.study.values import SessionKind

# Connections under way at once where the study has no word on it: less than the queue of a listener (Mosquitto's
# holds 100), beyond which the kernel drops what arrives and each client waits a second for its retransmission.
AT_ONCE = 64
# Where the study says when, the broker's queue is the broker's matter.
MANY_AT_ONCE = 4096
AGAIN_NS = 500_000_000  # from a connection that failed in a run to the next attempt
_SHORTEST_ANSWER = 4  # bytes of a CONNACK before MQTT 5.0
_IP_BIND_ADDRESS_NO_PORT = 24  # Python's socket module does not name it
_IN_PROGRESS = (0, errno.EINPROGRESS)


class _Step(Enum):
    CONNECTING = 1
    SHAKING = 2
    ASKED = 3


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a connection did not come about; the code is the broker's, or the system's error number."""

    message: str
    code: int | None = None


class _Opening:
    """One connection on its way."""

    __slots__ = ("answer", "began_ns", "client", "deadline_ns", "sock", "step", "stream", "unsent", "wants_write")

    def __init__(self, client: Client, sock: socket.socket, *, began_ns: int, deadline_ns: int) -> None:
        self.client, self.sock = client, sock
        self.began_ns, self.deadline_ns = began_ns, deadline_ns
        self.stream: Stream | None = None
        self.step = _Step.CONNECTING
        self.unsent = memoryview(b"")
        self.answer = b""
        self.wants_write = False

    @property
    def there(self) -> Stream:
        """The stream, which stands once the socket is connected."""
        if self.stream is None:
            raise ValueError(f"{self.client.name} is not connected")
        return self.stream

    def close(self) -> None:
        (self.stream or self.sock).close()


class Openings:
    """The connections of a worker that are on their way; its loop passes on what it hears of them."""

    def __init__(
        self, spec: WorkerSpec, epoll: select.epoll, log: SessionLog, *,
        opened: Callable[[Session], None], timeout_s: float, at_once: int = AT_ONCE,
        failed: Callable[[Client, Failure], None] | None = None,
        prepare: Callable[[socket.socket], None] | None = None,
    ) -> None:  # fmt: skip
        self._spec, self._epoll, self._log = spec, epoll, log
        self._opened, self._failed, self._prepare = opened, failed or give_up, prepare
        self._tries_again = False
        self._failures: dict[int, int] = {}  # by client, in the run
        self.lag = Lag()  # of connections that were due at a time
        self.refused = 0  # connections that failed in the run; each was tried again
        self._timeout_ns, self._at_once = int(timeout_s * 1e9), at_once
        self._level = LEVELS[spec.workload.protocol]
        self._waiting: list[tuple[int, int, Client]] = []  # a heap of (due, number, client)
        self._asked = 0
        self._under_way: dict[int, _Opening] = {}
        self._begun: deque[_Opening] = deque()  # in order of their deadlines; some are over already

    def __len__(self) -> int:
        return len(self._waiting) + len(self._under_way)

    def __contains__(self, fd: int) -> bool:
        return fd in self._under_way

    def ask(self, client: Client, *, due_ns: int = 0) -> None:
        """Wants a connection, at once or when it is due."""
        heapq.heappush(self._waiting, (due_ns, self._asked, client))
        self._asked += 1

    def go(self) -> None:
        """The run begins: clients come back when they have to, and one that fails tries again."""
        self._at_once, self._tries_again = MANY_AT_ONCE, True

    def withdraw(self) -> set[int]:
        """Forgets what is wanted and not begun; which clients' connections are on their way all the same.

        Whoever asked for one of those again would have two connections of one client.
        """
        self._waiting.clear()
        return {each.client.number for each in self._under_way.values()}

    def ask_all(self, order: Order) -> None:
        """Wants every client of the worker, all as fast as it goes or each at its time of the run's ramp."""
        rate_per_s = self._spec.workload.clients.connect_rate_per_s
        if rate_per_s is not None:
            self._at_once = MANY_AT_ONCE
        for client in self._spec.clients:
            place = self._spec.connects_after + client.number
            self.ask(client, due_ns=order.start_ns + round(place * 1e9 / rate_per_s) if rate_per_s else 0)

    def tick(self, now: int) -> int | None:
        """Begins what is due, gives up what takes too long; when it wants to be called again at the latest."""
        while self._begun and (self._is_over(self._begun[0]) or self._begun[0].deadline_ns <= now):
            late = self._begun.popleft()
            if not self._is_over(late):
                self._fail(
                    late, self._what_failed(late, f"nothing came in {self._timeout_ns / 1e9:g} s"), errno.ETIMEDOUT
                )
        while self._waiting and self._waiting[0][0] <= now and len(self._under_way) < self._at_once:
            due_ns, _, client = heapq.heappop(self._waiting)
            self._begin(client, due_ns)
        wakes = [self._begun[0].deadline_ns] if self._begun else []
        if self._waiting and len(self._under_way) < self._at_once:
            wakes.append(self._waiting[0][0])
        return min(wakes, default=None)

    def ready(self, fd: int) -> None:
        """Goes on with a connection that the loop heard of."""
        self._guarded(self._under_way[fd])

    def close(self) -> None:
        """Gives up whatever is not open yet."""
        for opening in self._under_way.values():
            opening.close()
        self._under_way.clear()
        self._waiting.clear()

    # -- the steps ------------------------------------------------------------------------------------------------

    def _begin(self, client: Client, due_ns: int) -> None:
        began_ns = now_ns()
        if due_ns:  # its lateness is the generator's; from here on the time is the broker's
            self.lag.note(began_ns - due_ns)
            self._log.add(client, "connect", began_ns=due_ns, at_ns=began_ns)
        door = self._door(client)
        sock = self._socket(client, door[0])
        opening = _Opening(client, sock, began_ns=began_ns, deadline_ns=began_ns + self._timeout_ns)
        self._under_way[sock.fileno()] = opening
        self._begun.append(opening)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._prepare is not None:
            self._prepare(sock)
        problem = sock.connect_ex(door)
        if problem not in _IN_PROGRESS:
            self._fail(opening, self._what_failed(opening, os.strerror(problem)), problem)
            return
        # To a broker on the same machine the connection stands already, though the system says that it is in progress.
        is_there = not problem or _has_peer(sock)
        self._epoll.register(sock.fileno(), select.EPOLLIN if is_there else select.EPOLLIN | select.EPOLLOUT)
        opening.wants_write = not is_there
        if is_there:
            self._guarded(opening)

    def _socket(self, client: Client, host: str) -> socket.socket:
        """One that does not block, with the source address of the client, where it has one."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        if addresses := self._spec.workload.clients.addresses:
            address = addresses[client.number % len(addresses)]
            # The system chooses the port at connect, per destination: each address has all of them (ip(7)).
            sock.setsockopt(socket.IPPROTO_IP, _IP_BIND_ADDRESS_NO_PORT, 1)
            try:
                sock.bind((address, 0))
            except OSError as problem:  # which is no broker's fault
                sock.close()
                reason = f"which is of IPv6: {address} is not" if ":" in host else f"{problem.strerror}"
                raise UserError(
                    f"{client.name}: no connection from {address} to {host}, {reason}",
                    hint="scenario.workload.clients.addresses are those of the machine on which the load runs",
                ) from problem
        return sock

    def _door(self, client: Client) -> tuple[str, int]:
        """Its own node, and after each failure in the run the next of the others, in turn."""
        doors = ((self._spec.host, self._spec.port), *self._spec.others)
        return doors[self._failures.get(client.number, 0) % len(doors)]

    def _guarded(self, opening: _Opening) -> None:
        """Goes as far as it can go now."""
        try:
            self._go_on(opening)
        except BlockingIOError:
            return
        except OSError as problem:
            self._fail(
                opening,
                self._what_failed(opening, problem.strerror or str(problem)),
                problem.errno,
            )
        except (MalformedPacketError, EOFError) as problem:
            self._fail(opening, self._what_failed(opening, str(problem)), errno.ECONNRESET)

    def _go_on(self, opening: _Opening) -> None:
        if opening.step is _Step.CONNECTING:
            self._connected(opening)
        if opening.step is _Step.SHAKING:
            self._shake(opening)
        if opening.unsent:
            with contextlib.suppress(BlockingIOError):
                opening.unsent = opening.unsent[opening.there.send(opening.unsent) :]
            self._want_write(opening, bool(opening.unsent))
            return  # no answer can be there yet
        if opening.step is _Step.ASKED and (answer := self._read(opening)) is not None:
            self._finish(opening, answer)

    def _connected(self, opening: _Opening) -> None:
        if problem := opening.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(problem, os.strerror(problem))
        self._log.add(opening.client, "tcp", began_ns=opening.began_ns)
        opening.stream = stream_of(opening.sock, self._spec, opening.client)
        opening.step = _Step.SHAKING

    def _shake(self, opening: _Opening) -> None:
        """One step of the stream's handshakes; after the last the question is ready to be sent."""
        try:
            wait = opening.there.shake()
        except OSError:
            note_stages(opening.client, opening.there, log=self._log)
            raise
        if wait is Wait.NOTHING:
            note_stages(opening.client, opening.there, log=self._log)
            opening.step = _Step.ASKED
            opening.unsent = memoryview(self._question(opening.client).encode(self._level))
        else:
            self._want_write(opening, wait is Wait.WRITE)

    def _want_write(self, opening: _Opening, wanted: bool) -> None:
        if wanted != opening.wants_write:
            self._epoll.modify(opening.sock.fileno(), select.EPOLLIN | (select.EPOLLOUT if wanted else 0))
            opening.wants_write = wanted

    def _question(self, client: Client) -> Connect:
        # MQTT 5.0: with a clean start and the session expiry of 0, which is the default, a session ends with its
        # connection, as a clean session does before; one that shall last needs an expiry.
        life = self._spec.workload.clients
        # So does one whose will is delayed, which comes with the session's end at the latest (5.0 section 3.1.3.2.2).
        is_clean, will = life.session is SessionKind.CLEAN, will_of(client, self._spec.workload)
        is_brief = is_clean and not (will and will.properties)
        return Connect(
            client.name,
            life.keep_alive_s,
            clean_session=is_clean,
            will=will,
            username=client.user,
            password=client.password,
            properties=connect_properties(self._spec.workload.mqtt5, keeps_session=not is_brief),
        )

    def _read(self, opening: _Opening) -> Packet | None:
        """The broker's answer once it is whole, and not a byte more: the rest belongs to the compiled walk."""
        while missing := _missing(opening.answer):
            buffer = bytearray(missing)
            count, _ = opening.there.read(memoryview(buffer))
            if not count:
                raise EOFError
            opening.answer += buffer[:count]
        return Parser(self._level).feed(opening.answer)[0]

    def _finish(self, opening: _Opening, answer: Packet) -> None:
        client = opening.client
        code = getattr(answer, "return_code", None)
        self._log.add(client, "connack", began_ns=opening.began_ns, code=code)
        try:
            session = session_of(
                client, opening.there, answer, level=self._level, workload=self._spec.workload, log=self._log
            )
        except RunError as problem:
            self._give_up(opening, Failure(problem.message, code))
            return
        del self._under_way[opening.sock.fileno()]
        self._opened(session)

    # -- the ends -------------------------------------------------------------------------------------------------

    def _is_over(self, opening: _Opening) -> bool:
        return self._under_way.get(opening.sock.fileno()) is not opening

    def _what_failed(self, opening: _Opening, reason: str) -> str:
        if opening.step is _Step.CONNECTING:
            where = written_address(self._spec.host, self._spec.port)
            return f"{opening.client.name}: no connection to {where}: {reason}"
        if opening.step is _Step.SHAKING:
            return f"{opening.client.name}: the handshake failed: {reason}"
        if not reason:
            return f"{opening.client.name}: the broker closed the connection after CONNECT"
        return f"{opening.client.name}: no answer to CONNECT: {reason}"

    def _fail(self, opening: _Opening, message: str, code: int | None) -> None:
        reason = message.partition(": ")[2]
        self._log.add(opening.client, f"connect failed: {reason}", began_ns=opening.began_ns, code=code)
        self._give_up(opening, Failure(message, code))

    def _give_up(self, opening: _Opening, failure: Failure) -> None:
        del self._under_way[opening.sock.fileno()]
        opening.close()  # which takes it out of the epoll too
        if self._tries_again:
            self.refused += 1
            self._failures[opening.client.number] = self._failures.get(opening.client.number, 0) + 1
            self.ask(opening.client, due_ns=now_ns() + AGAIN_NS)
        else:
            self._failed(opening.client, failure)


def _has_peer(sock: socket.socket) -> bool:
    try:
        sock.getpeername()
    except OSError:
        return False
    return True


def _missing(answer: bytes) -> int:
    """How many bytes of a first packet are still to be read for sure."""
    if len(answer) < _SHORTEST_ANSWER:
        return _SHORTEST_ANSWER - len(answer)
    head = decode_length(answer, 1)
    if head is None:
        return 1
    length, begin = head
    return max(0, begin + length - len(answer))


def give_up(_client: Client, failure: Failure) -> None:
    """What a run does that cannot begin without every client."""
    raise RunError(failure.message)


def connect_facts(openings: Openings | None) -> dict[str, Any]:
    """What a worker says of its connections at the end, as fields of Stopped."""
    if openings is None:
        return {}
    return {
        "refused_connects": openings.refused,
        "connect_lag_buckets": openings.lag.buckets(),
        "connect_lag_max_ns": openings.lag.max_ns,
    }


def open_one(client: Client, spec: WorkerSpec, *, timeout_s: float, log: SessionLog) -> Session:
    """One open connection, waited for; RunError where there is none. Its socket does not block."""
    sessions: list[Session] = []
    with select.epoll() as epoll:
        openings = Openings(spec, epoll, log, opened=sessions.append, timeout_s=timeout_s)
        openings.ask(client)
        while not sessions:
            wake_ns = openings.tick(now_ns())
            wait_s = None if wake_ns is None else max(0.0, (wake_ns - now_ns()) / 1e9)
            for fd, _ in epoll.poll(wait_s):
                openings.ready(fd)
        epoll.unregister(sessions[0].stream.fileno())
    return sessions[0]
