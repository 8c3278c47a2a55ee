"""A broker that does nothing, to measure the meter with: a sink for publishers, a source for subscribers.

    python -m brokerlab.load.nullbroker PORT [TRANSPORT [CERTIFICATE KEY]]

It speaks MQTT 3.1, 3.1.1 and 5.0, over TCP unless it is told another transport (tls, ws, wss).
Publishers: everything is read, counted, acknowledged and forgotten.
Subscribers: after a message on CONTROL_TOPIC (playing.Play as JSON) each is played messages as fast as its connection
takes them, with correct identities and the time now as their intended time; above QoS 0 at most playing.WINDOW of
them are in flight. They may publish meanwhile, as devices that answer do.
What is published is not delivered, but for the readiness proof, and to a subscriber who publishes and is played
nothing: it hears its own messages, as a self loop does.
When it has played, and at its end (SIGTERM), it prints what it counted, as one line of JSON.
"""

import contextlib
import json
import select
import signal
import socket
import ssl
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np

from brokerlab.errors import ExitCode
from brokerlab.load import nullwalk, wire
from brokerlab.load.alarm import now_ns
from brokerlab.load.openfiles import raise_open_files
from brokerlab.load.outbox import Outbox
from brokerlab.load.packets import (
    LEVELS,
    PROTOCOL_LEVEL,
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
    encode_length,
)
from brokerlab.load.parser import Parser
from brokerlab.load.playing import Count, Mirror, Play, Player, Subscription, play_of, rest_of
from brokerlab.load.properties import RECEIVE_MAXIMUM, TOPIC_ALIAS_MAXIMUM, encode_properties, number_of
from brokerlab.load.served import served, server_context
from brokerlab.load.streaming import Stream, Wait
from brokerlab.load.topics import PROOF_PREFIX
from brokerlab.study.values import Transport

HOST = "127.0.0.1"
CONTROL_TOPIC = nullwalk.PLAIN_PREFIX + "null/play"
_BUFFER_BYTES = 1 << 20
_MOST_BUFFER_BYTES = 64 << 20
_PLAIN = np.frombuffer(nullwalk.PLAIN_PREFIX.encode(), dtype=np.uint8).copy()
_USAGE = "usage: python -m brokerlab.load.nullbroker PORT [tcp | ws | tls CERTIFICATE KEY | wss CERTIFICATE KEY]"
_BACKLOG = 4096
_CONNECT = 1  # the kind of packet
_PUBLISHED, _ACKNOWLEDGED = (3, 6), (4, 5, 7)  # likewise: PUBLISH and PUBREL, PUBACK, PUBREC and PUBCOMP
_IDLE_S = 0.05
_ALERT_S = 0.001  # with an order to play


class Peer:
    """One client's connection."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        self.outbox = Outbox(stream)
        self.is_open = False  # whether its handshakes are done
        self.unread = b""
        self.skipped = 0  # bytes of a payload that came behind it, and that nobody keeps
        self.level = PROTOCOL_LEVEL
        self.receive_maximum: int | None = None
        self.held = np.zeros(65_536, dtype=np.uint8)
        self.subscription: Subscription | None = None
        self.player: Player | None = None
        self.mirror: Mirror | None = None  # of a subscriber that is played nothing


class NullBroker:
    """One thread, one epoll; `serve` runs until `stop` is called."""

    def __init__(
        self, listener: socket.socket, transport: Transport = Transport.TCP, context: ssl.SSLContext | None = None
    ) -> None:
        listener.setblocking(False)
        self._transport, self._context = transport, context
        self._listener = listener
        self._epoll = select.epoll()
        self._epoll.register(listener.fileno(), select.EPOLLIN)
        self._peers: dict[int, Peer] = {}
        self._play, self._is_playing = Play(), False
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
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._peers[sock.fileno()] = Peer(served(sock, self._transport, self._context))
        self._epoll.register(sock.fileno(), select.EPOLLIN)

    def _ready(self, fd: int, peer: Peer, event: int) -> None:
        try:
            if not peer.is_open and not self._shake(fd, peer):
                return
            with contextlib.suppress(BlockingIOError):  # nothing to read after all: epoll may wake for less (epoll(7))
                if event & ~select.EPOLLOUT:
                    self._read(peer)
                while peer.stream.has_more:  # of which epoll does not tell
                    self._read(peer)
            self._write(fd, peer)
        except OSError as problem:  # the client left, or says what MQTT does not allow
            if isinstance(problem, ConnectionAbortedError):
                print(f"closed a connection: {problem}", file=sys.stderr, flush=True)
            self._close(fd)

    def _shake(self, fd: int, peer: Peer) -> bool:
        """Whether its handshakes are done."""
        wait = peer.stream.shake()
        peer.is_open = wait is Wait.NOTHING
        if not peer.is_open:
            self._epoll.modify(fd, select.EPOLLOUT if wait is Wait.WRITE else select.EPOLLIN)
        return peer.is_open

    def _close(self, fd: int) -> None:
        peer = self._peers.pop(fd)
        if peer.player is not None:
            self.count.completed += peer.player.completed
            self.count.unknown += peer.player.unknown
        self._epoll.unregister(fd)
        peer.stream.close()

    # -- reading --------------------------------------------------------------------------------------------------

    def _read(self, peer: Peer) -> None:
        """Reads until there is a whole packet; what is not one yet is put aside. BlockingIOError if nothing came."""
        at, before = 0, len(peer.unread) + peer.skipped
        length = before
        self._make_room(length)
        self._buffer[: len(peer.unread)] = peer.unread
        while not at:
            if length == len(self._buffer):
                self._make_room(length + 1)
            try:
                got, _ = peer.stream.read(memoryview(self._buffer)[length:])
            except BlockingIOError:
                if length == before:
                    raise
                break
            if not got:
                raise ConnectionResetError("the client closed the connection")
            length += got
            at = self._take(peer, length)
        kept = length - at if peer.mirror else nullwalk.looked_at(self._view, length, at, peer.level, _PLAIN)
        peer.unread, peer.skipped = bytes(self._buffer[at : at + kept]), length - at - kept

    def _take(self, peer: Peer, length: int) -> int:
        """Counts and answers what is whole; where the rest begins."""
        at, why = 0, wire.FULL
        while why == wire.FULL:
            begin = at
            at, used, why = self._walk(peer, length, begin)
            if used:
                peer.outbox.put(memoryview(self._answers[:used].tobytes()))
            if peer.mirror and at > begin and (back := peer.mirror.back(self._view, begin, at)):
                peer.outbox.put(back)
            if why == wire.OTHER:
                at, why = self._take_plain(peer, length, at), wire.FULL
        if why == wire.MALFORMED:
            raise ConnectionAbortedError("a packet is malformed")
        return at

    def _make_room(self, length: int) -> None:
        """For a packet that is longer than any before."""
        if length <= len(self._buffer):
            return
        size = max(length, 2 * len(self._buffer))
        if size > _MOST_BUFFER_BYTES:
            raise ConnectionAbortedError(f"a packet is longer than {len(self._buffer)} bytes")
        self._buffer = self._buffer + bytearray(size - len(self._buffer))
        self._view = np.frombuffer(self._buffer, dtype=np.uint8)

    def _walk(self, peer: Peer, length: int, at: int) -> tuple[int, int, int]:
        """One kind after the other, where a device acknowledges what it is played and answers it."""
        if hearing := peer.player or peer.mirror:
            at, used, why = hearing.acknowledge(self._view, length, at, self._answers)
            if why != wire.OTHER or self._buffer[at] >> 4 not in _PUBLISHED:
                return at, used, why
            if used:
                return at, used, wire.FULL
        at, used, why = nullwalk.walk_publications(
            self._view, length, at, peer.level, _PLAIN, peer.held, self._answers, self._received
        )
        is_heard = hearing is not None and why == wire.OTHER and self._buffer[at] >> 4 in _ACKNOWLEDGED
        return at, used, wire.FULL if is_heard else why

    def _take_plain(self, peer: Peer, length: int, at: int) -> int:
        """Reads one packet with the plain parser; where the next one begins."""
        found = decode_length(self._buffer, at + 1)
        if found is None or found[0] + found[1] > length:
            raise ConnectionAbortedError("a packet is malformed")
        begin, end = found[1], found[0] + found[1]
        if self._buffer[at] >> 4 == _CONNECT:
            peer.level = self._level_of(begin, end)
        try:
            packet = Parser(peer.level).feed(bytes(self._buffer[at:end]))[0]
        except MalformedPacketError as problem:
            raise ConnectionAbortedError(str(problem)) from problem
        self._answer(peer, packet)
        return end

    def _level_of(self, begin: int, end: int) -> int:
        """What the body of a CONNECT says of itself, behind the name of the protocol."""
        place = begin + 2 + int.from_bytes(self._buffer[begin : begin + 2], "big")
        level = self._buffer[place] if place < end else 0
        if level not in LEVELS.values():
            raise ConnectionAbortedError(f"there is no MQTT of level {level}")
        return level

    def _answer(self, peer: Peer, packet: Packet) -> None:
        match packet:
            case Connect(properties=said):
                peer.receive_maximum = number_of(said, RECEIVE_MAXIMUM)
                allowed = ((TOPIC_ALIAS_MAXIMUM, wire.PACKET_IDS),) if peer.level >= 5 else ()
                peer.outbox.put(memoryview(ConnAck(properties=allowed).encode(peer.level)))
            case Subscribe(packet_id=packet_id, filters=((name, options), *_) as filters, properties=said):
                identifier = encode_properties(said, encode_length)
                peer.subscription = Subscription(name, options & 3, peer.level, identifier, peer.receive_maximum)
                peer.mirror = Mirror()
                granted = tuple(asked & 3 for _, asked in filters)
                peer.outbox.put(memoryview(SubAck(packet_id, granted).encode(peer.level)))
            case PingReq():
                peer.outbox.put(memoryview(PingResp().encode()))
            case Publish(topic=topic, payload=payload) if topic == CONTROL_TOPIC:
                self._play, self._idle_s = play_of(json.loads(payload)), _ALERT_S
                self._prepare()
            case Publish(topic=topic) if topic.startswith(PROOF_PREFIX):
                self._echo(packet)
            case Disconnect():
                raise ConnectionResetError("the client said goodbye")
            case _:
                raise ConnectionAbortedError(f"a {type(packet).__name__} has no place here")

    def _echo(self, message: Publish) -> None:
        """Delivers a message of the readiness proof."""
        for fd, peer in self._peers.items():
            if peer.subscription and peer.subscription.filter == message.topic:
                peer.outbox.put(memoryview(Publish(message.topic, message.payload).encode(peer.level)))
                self._epoll.modify(fd, select.EPOLLIN | select.EPOLLOUT)

    # -- writing --------------------------------------------------------------------------------------------------

    def _keep_time(self) -> None:
        """Begins to play when it is time, and says so when it is over."""
        if not self._play.end_ns:
            return
        now = now_ns()
        if self._play.start_ns <= now < self._play.end_ns:
            if not self._is_playing:
                self._start()
        elif now >= self._play.end_ns:
            self._play, self._is_playing, self._idle_s = Play(), False, _IDLE_S
            print(json.dumps(asdict(self._total())), flush=True)

    def _prepare(self) -> None:
        """Gives every subscriber of the load its player: they have subscribed before the order comes."""
        listening = [
            (peer, peer.subscription)
            for peer in self._peers.values()
            if peer.subscription and not peer.subscription.filter.startswith(PROOF_PREFIX)
        ]
        rest = rest_of(self._play, players=len(listening)) if listening else None
        for peer, asked in listening:
            peer.mirror, peer.player = None, Player(asked, peer.outbox, self._play, players=len(listening), rest=rest)

    def _start(self) -> None:
        self._is_playing = True
        for fd, peer in self._peers.items():
            if peer.player is not None:
                self._epoll.modify(fd, select.EPOLLIN | select.EPOLLOUT)

    def _write(self, fd: int, peer: Peer) -> None:
        """Hands over what waits, and one block more for a subscriber that has room."""
        is_empty, now = peer.outbox.push(), now_ns()
        if is_empty and peer.player is not None and peer.player.wants_to_send(now):
            peer.player.fill(now, self.count)
            is_empty = peer.outbox.push()
        wants = not is_empty or (peer.player is not None and peer.player.wants_to_send(now))
        reads = is_empty or peer.mirror is None  # what waits to go back would grow without end
        self._epoll.modify(fd, (select.EPOLLIN if reads else 0) | (select.EPOLLOUT if wants else 0))


def main(arguments: list[str]) -> int:
    """The null broker as a program; its exit code."""
    try:
        port, transport = int(arguments[0]), Transport(arguments[1] if arguments[1:] else "tcp")
        context = server_context(*map(Path, arguments[2:])) if transport.is_encrypted else None
    except (IndexError, TypeError, ValueError, OSError) as problem:
        print(f"{_USAGE}\n{problem}", file=sys.stderr)
        return ExitCode.BAD_INPUT
    raise_open_files()
    with socket.create_server((HOST, port), backlog=_BACKLOG) as listener:
        broker = NullBroker(listener, transport, context)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, broker.stop)
        count = broker.serve()
    print(json.dumps(asdict(count)), flush=True)
    return ExitCode.VALID


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
