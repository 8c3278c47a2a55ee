"""What one check works in: connections, topics and client identifiers of its own, a trace and a deadline.

Nothing is left in the broker: retained messages are cleared at the end, and sessions that were to be kept
are ended, unless the broker was started for the probe and ends with it.
"""

import secrets
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Event
from types import TracebackType
from typing import Self

from brokerlab.lab.probe.peer import Limits, Peer
from brokerlab.lab.probe.values import Broken, NotKept, Undecided, Unsupported
from brokerlab.lab.probe.words import joined
from brokerlab.load.packets import ConnAck, Connect, Publish, Will, connack_reason
from brokerlab.load.properties import SESSION_EXPIRY, Properties

PREFIX = "brokerlab-probe/"
KEPT_S = 300  # how long a session that a check wants to find again is kept, where it can be said (MQTT 5.0)
_KEEP_ALIVE_S = 600
_GRACE_S = 0.1  # for what comes after the fence although it left before it
_FENCE = "/fence/"
_CLEANING_S = 10.0


def _is_alive() -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Place:
    """The broker under probe."""

    host: str
    port: int
    is_ours: bool = True  # started for the probe, and gone after it
    patience_s: float = 5.0  # for one answer
    largest_bytes: int = 8 << 20  # where the search for the largest payload ends
    obituary: Callable[[], str] = _is_alive  # how the process ended, "" while it lives or where nobody knows
    ports: Mapping[int, int] = field(default_factory=dict)  # level of the protocol -> port, where one has its own
    tls: ssl.SSLContext | None = None
    user: str | None = None
    password: bytes | None = field(default=None, repr=False)

    def connected(self, level: int, timeout_s: float) -> socket.socket:
        """A connection, inside TLS where that is asked for; OSError."""
        sock = socket.create_connection((self.host, self.ports.get(level, self.port)), timeout=timeout_s)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.tls is not None:
                sock = self.tls.wrap_socket(sock, server_hostname=self.host)
            sock.setblocking(False)
        except BaseException:
            sock.close()
            raise
        return sock


class Room:
    """Use it as a context manager."""

    def __init__(self, place: Place, *, level: int, name: str, stop: Event, longest_s: float = 40.0) -> None:
        self.place, self.level = place, level
        # Without dots, which RabbitMQ delivers as slashes: the check topic.space says so, and no other should.
        self.base = f"{PREFIX}{secrets.token_hex(4)}/{name.replace('.', '-')}"
        self.trace: list[str] = []
        self._limits = Limits(place.patience_s, time.monotonic() + longest_s, stop)
        self._peers: list[Peer] = []
        self._names = 0
        self._sessions: set[str] = set()
        self._retained: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()
        try:
            if self._retained or not self.place.is_ours:
                self._tidy()
        except NotKept:
            pass  # what cannot be reached any more cannot be tidied
        finally:
            self._close()

    @property
    def patience_s(self) -> float:
        return self._limits.patience_s

    def evidence(self) -> str:
        return joined(self.trace)

    def topic(self, *levels: str) -> str:
        """A topic of this check's own."""
        return "/".join((self.base, *levels))

    def client_id(self) -> str:
        """A new name of letters and digits, short enough for every version."""
        self._names += 1
        return f"bl{secrets.token_hex(6)}x{self._names}"

    def raw(self, name: str) -> Peer:
        """A connection on which nothing was said yet."""
        self._limits.require_time()
        try:
            sock = self.place.connected(self.level, self.patience_s)
        except OSError as problem:
            ended = self.place.obituary()
            raise Undecided(f"no connection: {problem.strerror or problem}" + (f"; {ended}" if ended else "")) from None
        peer = Peer(sock, name=name, level=self.level, base=self.base, limits=self._limits, record=self.trace.append)
        peer.user, peer.password = self.place.user, self.place.password
        self._peers.append(peer)
        return peer

    def peer(
        self,
        name: str,
        *,
        client_id: str | None = None,
        clean: bool = True,
        will: Will | None = None,
        keep_alive_s: int = _KEEP_ALIVE_S,
        properties: Properties = (),
        acknowledges: bool = True,
    ) -> Peer:
        """A client whose CONNECT was accepted; a session that is not clean is kept for `KEPT_S`."""
        if not clean:
            if client_id is not None:
                self._sessions.add(client_id)
            if self.level == 5 and not any(number == SESSION_EXPIRY for number, _ in properties):
                properties = (*properties, (SESSION_EXPIRY, KEPT_S))
        if will is not None and will.retain:
            self._retained.add(will.topic)
        peer = self.raw(name)
        peer.acknowledges = acknowledges
        named = self.client_id() if client_id is None else client_id
        peer.send(Connect(named, keep_alive_s, clean, will, properties=properties))
        peer.connack = peer.answer(ConnAck)
        if code := peer.connack.return_code:
            raise Broken(f"CONNECT was refused: {connack_reason(self.level, code)} ({code:#04x})")
        return peer

    def pair(self, *, qos: int = 2, topic_filter: str | None = None) -> tuple[Peer, Peer, str]:
        """A publisher, a subscriber, and the topic that it subscribed to."""
        subscriber, topic = self.peer("sub"), topic_filter or self.topic("t")
        self.require_granted(subscriber.subscribe(topic, qos), qos)
        return self.peer("pub"), subscriber, topic

    def require_granted(self, granted: int, asked: int) -> None:
        if granted < asked:
            raise Unsupported(f"QoS {asked} was asked for and QoS {granted} granted")

    def retain(self, publisher: Peer, topic: str, payload: bytes, *, qos: int = 1, properties: Properties = ()) -> None:
        """Publishes a retained message that is cleared at the end."""
        self._retained.add(topic)
        publisher.publish(topic, payload, qos=qos, retain=True, properties=properties)

    def settle(self, publisher: Peer, subscriber: Peer, *, qos: int = 0) -> list[Publish]:
        """All that came to the subscriber, after a last message has gone the whole way behind everything else."""
        fence = self.topic() + _FENCE + secrets.token_hex(4)
        subscriber.subscribe(fence, qos)
        publisher.publish(fence, b"fence", qos=qos)
        deadline = time.monotonic() + self.patience_s
        while not any(message.topic == fence for message in subscriber.messages):
            before = len(subscriber.messages)
            subscriber.received(before + 1, within_s=max(deadline - time.monotonic(), 0.0))
            if len(subscriber.messages) == before:
                raise Undecided("a last message, sent to see that nothing else comes, did not arrive itself")
        subscriber.listen(_GRACE_S)
        return [message for message in subscriber.messages if _FENCE not in message.topic]

    def pause(self, seconds: float) -> None:
        """Lets time pass that the protocol itself counts."""
        self.trace.append(f"{seconds:g} s pass")
        if self._limits.stop.wait(seconds):
            self._limits.require_time()

    def _close(self) -> None:
        for peer in self._peers:
            peer.close()

    def _tidy(self) -> None:
        """Ends kept sessions and clears retained messages."""
        self._limits.ends_s = max(self._limits.ends_s, time.monotonic() + _CLEANING_S)
        self._limits.stop = Event()
        for client_id in () if self.place.is_ours else self._sessions:
            self.peer("tidy", client_id=client_id).disconnect()
        if self._retained:
            tidy = self.peer("tidy")
            for topic in self._retained:
                tidy.publish(topic, qos=1, retain=True)
            tidy.disconnect()
