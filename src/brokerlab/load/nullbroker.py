"""A broker that does nothing, to measure the meter with: a sink for publishers, a source for subscribers.

    python -m brokerlab.load.nullbroker PORT

Publishers: everything is read, counted, acknowledged and forgotten.
Subscribers: after a message on CONTROL_TOPIC, {"start_ns", "end_ns", "payload_bytes"}, each is played messages as
fast as its socket takes them, with correct identities and the time now as their intended time; above QoS 0 at
most WINDOW of them are in flight. What is published is not delivered, but for the readiness proof.
When it has played, and at its end (SIGTERM), it prints what it counted, as one line of JSON.
"""

import contextlib
import json
import select
import signal
import socket
import sys
from dataclasses import asdict, dataclass

import numpy as np

from brokerlab.errors import ExitCode
from brokerlab.load import nullwalk, wire
from brokerlab.load.alarm import now_ns
from brokerlab.load.outbox import Outbox
from brokerlab.load.packets import (
    ConnAck,
    Connect,
    Disconnect,
    MalformedPacketError,
    Packet,
    PingReq,
    PingResp,
    Publish,
    SubAck,
    Subscribe,
    decode_length,
)
from brokerlab.load.parser import Parser
from brokerlab.load.topics import PROOF_PREFIX

HOST = "127.0.0.1"
CONTROL_TOPIC = nullwalk.PLAIN_PREFIX + "null/play"
WINDOW = 20_000  # messages in flight to one subscriber at QoS 1 and 2
_BLOCK_BYTES = 256 * 1024
_BUFFER_BYTES = 1 << 20
_PLAIN = np.frombuffer(nullwalk.PLAIN_PREFIX.encode(), dtype=np.uint8).copy()
_IDLE_S = 0.05
_ALERT_S = 0.001  # with an order to play


@dataclass(slots=True)
class Count:
    """What the null broker saw."""

    received: int = 0  # messages of publishers, each once
    received_payload_bytes: int = 0
    repeated: int = 0  # QoS 2 messages that came again before their release
    released: int = 0  # PUBRELs
    played: int = 0  # messages handed to subscribers' sockets
    completed: int = 0  # of these at QoS 1 and 2: acknowledged to the end
    unknown: int = 0  # acknowledgements of nothing in flight
    last_played_ns: int = 0  # on the monotonic clock


@dataclass(frozen=True, slots=True)
class Play:
    """When subscribers are played messages, on the monotonic clock."""

    start_ns: int = 0
    end_ns: int = 0
    payload_bytes: int = 64


class Player:
    """The messages to one subscriber: built in blocks, numbered from 0, with a window above QoS 0."""

    def __init__(self, topic: str, qos: int, outbox: Outbox, play: Play) -> None:
        filler = bytes(max(0, play.payload_bytes - wire.IDENTITY_BYTES))
        self._template, self._id_at, self._payload_at = wire.publish_template(
            topic, payload_bytes=play.payload_bytes, qos=qos, retain=False, filler=filler
        )
        self._qos, self._outbox, self._play = qos, outbox, play
        self._block = max(1, _BLOCK_BYTES // self._template.size)
        self._in_flight = np.zeros(65_536, dtype=np.uint8)  # packet identifiers
        self._counts = np.zeros(2, dtype=np.int64)
        self._following = 0

    def wants_to_send(self, now: int) -> bool:
        return self._play.start_ns <= now < self._play.end_ns and self._room() > 0

    def _room(self) -> int:
        return WINDOW - (self._following - self.completed) if self._qos else self._block

    def fill(self, now: int, count: Count) -> None:
        """Queues one block of messages."""
        size = min(self._block, self._room())
        out = np.empty(size * self._template.size, dtype=np.uint8)
        intended = np.full(size, now, dtype=np.int64)
        wire.build_publishes(self._template, self._id_at, self._payload_at, 0, self._following, intended, out)
        if self._qos:
            self._in_flight[np.arange(self._following, self._following + size) % wire.PACKET_IDS + 1] = 1
        self._following += size
        self._outbox.put(memoryview(out.data), stride=self._template.size)
        count.played += size
        count.last_played_ns = now

    def acknowledge(self, view: wire.Bytes, length: int, at: int, releases: wire.Bytes) -> tuple[int, int, int]:
        """Next position, bytes of PUBRELs, why the walk stopped."""
        return nullwalk.walk_completions(view, length, at, self._in_flight, releases, self._counts)

    @property
    def completed(self) -> int:
        return int(self._counts[nullwalk.COMPLETED])

    @property
    def unknown(self) -> int:
        return int(self._counts[nullwalk.UNKNOWN])


class Peer:
    """One client's connection."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self.outbox = Outbox(sock)
        self.unread = b""
        self.held = np.zeros(65_536, dtype=np.uint8)
        self.subscription: tuple[str, int] | None = None
        self.player: Player | None = None


class NullBroker:
    """One thread, one epoll; `serve` runs until `stop` is called."""

    def __init__(self, listener: socket.socket) -> None:
        listener.setblocking(False)
        self._listener = listener
        self._epoll = select.epoll()
        self._epoll.register(listener.fileno(), select.EPOLLIN)
        self._peers: dict[int, Peer] = {}
        self._play = Play()
        self._idle_s = _IDLE_S
        self._is_over = False
        self._buffer = bytearray(_BUFFER_BYTES)
        self._view = np.frombuffer(self._buffer, dtype=np.uint8)
        self._answers = np.empty(_BUFFER_BYTES, dtype=np.uint8)
        self._received = np.zeros(4, dtype=np.int64)
        self.count = Count()

    def stop(self, *_: object) -> None:
        self._is_over = True

    def serve(self) -> Count:
        """Serves until it is stopped; what it counted."""
        try:
            while not self._is_over:
                for fd, event in self._epoll.poll(self._idle_s):
                    if fd == self._listener.fileno():
                        self._accept()
                    elif fd in self._peers:
                        self._ready(fd, self._peers[fd], event)
                self._keep_time()
            self._read_rest()
        finally:
            for fd in list(self._peers):
                self._close(fd)
            self._epoll.close()
        return self._total()

    def _read_rest(self) -> None:
        """Counts what clients handed over before the end, though it was not read until now."""
        for peer in self._peers.values():
            with contextlib.suppress(OSError):  # nothing more, or the client's own end
                while True:
                    self._read(peer)

    def _total(self) -> Count:
        received = self._received.tolist()
        self.count.received, self.count.received_payload_bytes, self.count.repeated, self.count.released = received
        return self.count

    # -- connections ----------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        sock, _ = self._listener.accept()
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._peers[sock.fileno()] = Peer(sock)
        self._epoll.register(sock.fileno(), select.EPOLLIN)

    def _ready(self, fd: int, peer: Peer, event: int) -> None:
        try:
            if event & ~select.EPOLLOUT:
                self._read(peer)
            self._write(fd, peer)
        except BlockingIOError:
            return  # nothing to read after all: epoll may wake for less (epoll(7))
        except OSError as problem:  # the client left, or says what MQTT does not allow
            if isinstance(problem, ConnectionAbortedError):
                print(f"closed a connection: {problem}", file=sys.stderr, flush=True)
            self._close(fd)

    def _close(self, fd: int) -> None:
        peer = self._peers.pop(fd)
        if peer.player is not None:
            self.count.completed += peer.player.completed
            self.count.unknown += peer.player.unknown
        self._epoll.unregister(fd)
        peer.socket.close()

    # -- reading --------------------------------------------------------------------------------------------------

    def _read(self, peer: Peer) -> None:
        length = len(peer.unread)
        if length == len(self._buffer):
            raise ConnectionAbortedError(f"a packet is longer than {length} bytes")
        self._buffer[:length] = peer.unread
        got = peer.socket.recv_into(memoryview(self._buffer)[length:])
        if not got:
            raise ConnectionResetError("the client closed the connection")
        length += got
        at, why = 0, wire.FULL
        while why == wire.FULL:
            at, used, why = self._walk(peer, length, at)
            if used:
                peer.outbox.put(memoryview(self._answers[:used].tobytes()))
            if why == wire.OTHER:
                at, why = self._take_plain(peer, length, at), wire.FULL
        if why == wire.MALFORMED:
            raise ConnectionAbortedError("a packet is malformed")
        peer.unread = bytes(self._buffer[at:length])

    def _walk(self, peer: Peer, length: int, at: int) -> tuple[int, int, int]:
        if peer.player is None:
            return nullwalk.walk_publications(self._view, length, at, _PLAIN, peer.held, self._answers, self._received)
        return peer.player.acknowledge(self._view, length, at, self._answers)

    def _take_plain(self, peer: Peer, length: int, at: int) -> int:
        """Reads one packet with the plain parser; where the next one begins."""
        found = decode_length(self._buffer, at + 1)
        if found is None or found[0] + found[1] > length:
            raise ConnectionAbortedError("a packet is malformed")
        end = found[0] + found[1]
        try:
            packet = Parser().feed(bytes(self._buffer[at:end]))[0]
        except MalformedPacketError as problem:
            raise ConnectionAbortedError(str(problem)) from problem
        self._answer(peer, packet)
        return end

    def _answer(self, peer: Peer, packet: Packet) -> None:
        match packet:
            case Connect():
                peer.outbox.put(memoryview(ConnAck().encode()))
            case Subscribe(packet_id=packet_id, filters=filters):
                peer.subscription = filters[0][:2]
                peer.outbox.put(memoryview(SubAck(packet_id, tuple(asked[1] for asked in filters)).encode()))
            case PingReq():
                peer.outbox.put(memoryview(PingResp().encode()))
            case Publish(topic=topic, payload=payload) if topic == CONTROL_TOPIC:
                self._play, self._idle_s = Play(**json.loads(payload)), _ALERT_S
            case Publish(topic=topic) if topic.startswith(PROOF_PREFIX):
                self._echo(packet)
            case Disconnect():
                raise ConnectionResetError("the client said goodbye")
            case _:
                raise ConnectionAbortedError(f"a {type(packet).__name__} has no place here")

    def _echo(self, message: Publish) -> None:
        """Delivers a message of the readiness proof."""
        for fd, peer in self._peers.items():
            if peer.subscription and peer.subscription[0] == message.topic:
                peer.outbox.put(memoryview(Publish(message.topic, message.payload).encode()))
                self._epoll.modify(fd, select.EPOLLIN | select.EPOLLOUT)

    # -- writing --------------------------------------------------------------------------------------------------

    def _keep_time(self) -> None:
        """Begins to play when it is time, and says so when it is over."""
        if not self._play.end_ns:
            return
        now = now_ns()
        if self._play.start_ns <= now < self._play.end_ns:
            self._start_players()
        elif now >= self._play.end_ns:
            self._play, self._idle_s = Play(), _IDLE_S
            print(json.dumps(asdict(self._total())), flush=True)

    def _start_players(self) -> None:
        """Gives every subscriber of the load its player."""
        for fd, peer in self._peers.items():
            if peer.player is None and peer.subscription and not peer.subscription[0].startswith(PROOF_PREFIX):
                name, qos = peer.subscription
                topic = name.replace("#", "0").replace("+", "0")
                peer.player = Player(topic, qos, peer.outbox, self._play)
                self._epoll.modify(fd, select.EPOLLIN | select.EPOLLOUT)

    def _write(self, fd: int, peer: Peer) -> None:
        """Hands over what waits, and one block more for a subscriber that has room."""
        is_empty, now = peer.outbox.push(), now_ns()
        if is_empty and peer.player is not None and peer.player.wants_to_send(now):
            peer.player.fill(now, self.count)
            is_empty = peer.outbox.push()
        wants = not is_empty or (peer.player is not None and peer.player.wants_to_send(now))
        self._epoll.modify(fd, select.EPOLLIN | (select.EPOLLOUT if wants else 0))


def main(arguments: list[str]) -> int:
    """The null broker as a program; its exit code."""
    if len(arguments) != 1 or not arguments[0].isdecimal():
        print("usage: python -m brokerlab.load.nullbroker PORT", file=sys.stderr)
        return ExitCode.BAD_INPUT
    with socket.create_server((HOST, int(arguments[0]))) as listener:
        broker = NullBroker(listener)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, broker.stop)
        count = broker.serve()
    print(json.dumps(asdict(count)), flush=True)
    return ExitCode.VALID


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
