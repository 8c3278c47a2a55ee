"""Publishers over real sockets, kept supplied by a Filling, and peers that hear and acknowledge what a test says."""

import contextlib
import select
import socket
from array import array
from functools import partial
from pathlib import Path

import numpy as np

from brokerlab.load import filling
from brokerlab.load.alarm import now_ns
from brokerlab.load.messages import messages_of
from brokerlab.load.packets import LEVELS, PingResp, PubAck, PubComp, Publish, PubRec
from brokerlab.load.parser import Parser
from brokerlab.load.publisher import SEEN, Publisher
from brokerlab.load.role import Connections
from brokerlab.load.sessionlog import SessionLog
from brokerlab.load.spec import Client, Go, Progress, WorkerSpec
from brokerlab.load.stream import TcpStream
from brokerlab.load.wire import packet_id
from brokerlab.study.values import Arrivals, Qos, Schedule, Workload

OWN, OTHER_WORKER, DELIVERED, OVERTAKEN, WINDOW = range(5)
PROGRESS = Progress((OWN, OTHER_WORKER), (DELIVERED,), (OVERTAKEN,), WINDOW)
BRIEFLY_NS = 3_000_000
LONG_NS = 10_000_000_000


class Rows:
    def __init__(self):
        self.seen = {}  # times by publisher and number

    def add(self, publisher, first_seq, intended_ns, sent_ns, acked_ns, payload_bytes):
        times = zip(intended_ns.tolist(), sent_ns.tolist(), acked_ns.tolist(), strict=True)
        for seq, each in enumerate(times, first_seq):
            assert self.seen.setdefault((publisher, seq), each) is each, "recorded twice"


class Peer:
    """The broker's end of a connection: keeps what it hears, and what it owes for that."""

    def __init__(self, end, *, qos, level):
        self.end, self.qos, self._level = end, qos, level
        self._parser = Parser(level)
        self.messages, self.releases, self.owed, self.said, self.waiting = [], [], [], [], b""

    def hear(self):
        for packet in self._parser.feed(received(self.end)):
            if isinstance(packet, Publish):
                self.messages.append(packet)
                self.owed += [] if self.qos == 0 else [(PubAck if self.qos == 1 else PubRec)(packet.packet_id)]
            else:
                self.releases.append(packet.packet_id)
                self.owed.append(PubComp(packet.packet_id))
        return self

    def say(self, *packets, cut=None):
        """Adds packets to what is to be sent, and sends so many bytes of that, or all."""
        self.said += packets
        self.waiting += b"".join(each.encode(self._level) for each in packets)
        self.end.sendall(self.waiting[:cut])
        self.waiting = b"" if cut is None else self.waiting[cut:]

    def say_something(self, random):
        if random.random() < 0.5:
            random.shuffle(self.owed)
        count = random.randint(0, len(self.owed))
        packets, self.owed = self.owed[:count], self.owed[count:]
        for _ in range(random.choice((0, 0, 1, 2))):
            packets.insert(random.randint(0, len(packets)), PingResp())
        self.say(*packets, cut=random.randint(0, len(self.waiting) + 4 * count))

    def said_ids(self, *kinds):
        return [each.packet_id for each in self.said if isinstance(each, kinds)]


class Rig:
    """What a worker has of its publishers, and does for them."""

    def __init__(
        self, stack, *, qos=1, protocol="3.1.1", publishers=1, window=16, fan_out=1.0, most=65_535, first=0,
        payload_bytes=40, buffer_bytes=1 << 16, releases_bytes=1 << 16, pair=None, is_shared=True, **more,
    ):  # fmt: skip
        self.counts = array("q", [0] * 5) if is_shared else [0] * 5
        self.rows, self.seen, self.lost = Rows(), np.zeros(len(SEEN), dtype=np.int64), []
        self.buffer = bytearray(buffer_bytes)
        self.view, self.releases = np.frombuffer(self.buffer, dtype=np.uint8), np.zeros(releases_bytes, dtype=np.uint8)
        self.epoll = stack.enter_context(select.epoll())
        orders, self.order_end = (stack.enter_context(end) for end in socket.socketpair())
        self.epoll.register(orders, select.EPOLLIN)
        self.orders_fd = orders.fileno()
        schedule = Schedule(Arrivals.SATURATE, window=window)
        value = Workload(payload_bytes=payload_bytes, qos=Qos(qos), protocol=protocol, schedule=schedule, **more)
        spec = WorkerSpec("publishers/0", OWN, "127.0.0.1", 1, (), value, fan_out, 1, Path())
        self.filling = filling.Filling(
            spec, self.counts, PROGRESS, seen=self.seen, buffer=self.view, releases=self.releases,
            connections=Connections(self.epoll, SessionLog(spec.node), orders_fd=self.orders_fd),
        )  # fmt: skip
        self.open, self.peers, self._first, self._level = {}, [], first, LEVELS[protocol]
        for number in range(publishers):
            ours, theirs = (stack.enter_context(end) for end in (pair or socket.socketpair)())
            client = Client(number, f"p{number}", f"plant/{10**number}")
            publisher = Publisher(
                client, TcpStream(ours), messages_of(client, value, seed=1, level=self._level), qos=qos, rows=self.rows,
                level=self._level, receive_maximum=most, seen=self.seen,
            )  # fmt: skip
            publisher.following = publisher.oldest = publisher.ring.recorded = publisher.outbox.handed = first
            self.open[ours.fileno()] = publisher
            self.peers.append(Peer(theirs, qos=qos, level=self._level))
            self.epoll.register(ours, select.EPOLLIN)
        self.publishers = list(self.open.values())

    def watch(self, *, pause_s=0.000_1, lasts_ns=BRIEFLY_NS):
        return self.filling.watch(self.open, Go(0, 0, now_ns() + lasts_ns), pause_s, do=self.do)

    def do(self, fd, action):
        """As Publishing has it."""
        publisher = self.open[fd]
        before = publisher.following
        try:
            with contextlib.suppress(BlockingIOError):
                action()
        except OSError as problem:
            publisher.read_rest(problem, self.buffer, self.view, self.releases)
            self.lost.append(fd)
            self.epoll.unregister(fd)
            self.open.pop(fd).stream.close()
        self.counts[OWN] += publisher.following - before

    def turn(self):
        """A watch and what it left to do, or the ordinary way while somebody is blocked; peers hear of it."""
        blocked = [fd for fd, publisher in self.open.items() if publisher.is_blocked]
        for fd in blocked:
            self.do(fd, self.open[fd].push)
        if blocked:
            self.filling.fill(self.open, Go(0, 0, 0), now_ns(), do=self.do)
        else:
            self.read(self.watch() or ())
        for peer in self.peers:
            peer.hear()

    def read(self, events):
        for fd, _ in events:
            if fd in self.open:
                self.do(fd, partial(self.open[fd].read, self.buffer, self.view, self.releases))

    def until(self, act, is_done):
        deadline = now_ns() + 6 * LONG_NS  # a machine may be busy
        while not is_done():
            assert now_ns() < deadline
            act()

    def is_heard(self, count):
        """Whether peers have received all messages, and at least so many."""
        return sum(len(peer.messages) for peer in self.peers) == self.counts[OWN] >= count

    def sent(self):
        return [each.following for each in self.publishers]

    def fills(self, *sent):
        """Whether publishers send so many, and no more."""
        self.until(self.watch, lambda: self.sent() == list(sent))
        self.watch()
        return self.sent() == list(sent)

    def check(self):
        for publisher, peer in zip(self.publishers, self.peers, strict=True):
            publisher.record(everything=True)
            times = {seq: each for (number, seq), each in self.rows.seen.items() if number == publisher.client.number}
            check(publisher, peer, times, first=self._first, level=self._level)


def received(end):
    parts = []
    while select.select([end], [], [], 0)[0] and (part := end.recv(1 << 20)):
        parts.append(part)
    return b"".join(parts)


def tcp_pair():
    """With little room, so that not much fits at once."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
        ours = socket.socket()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        ours.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        ours.connect(server.getsockname())
        return ours, server.accept()[0]


def check(publisher, peer, times, *, first, level):
    """That what a peer has heard and said agrees with what the publisher knows and records."""
    acked = set(peer.said_ids(PubAck, PubComp))
    seqs = range(first, first + len(peer.messages))
    assert sorted(times) == list(seqs)
    assert all(0 < intended <= sent for intended, sent, _ in times.values())
    assert {packet_id(seq) for seq, (_, _, acked_ns) in times.items() if acked_ns > 0} == acked
    heard = b"".join(each.encode(level) for each in peer.messages)
    built = publisher.messages.build(first, np.array([times[seq][0] for seq in seqs], dtype=np.int64))
    assert heard == b"".join(bytes(piece.data) for piece in built)
    assert peer.releases == peer.said_ids(PubRec)
    oldest = next((seq for seq in seqs if peer.qos and packet_id(seq) not in acked), seqs.stop)
    state = (publisher.following, publisher.in_flight, publisher.unsent, publisher.wire_bytes)
    assert state == (seqs.stop, seqs.stop - oldest, 0, len(heard))
