"""The compiled reading of a socket, beside the walk over the same bytes and the stamps in Python."""

import contextlib
import select
import socket
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokerlab.load import readwalk, wire
from brokerlab.load.arrival import Stamps, ask_for_stamps, read_stamped
from brokerlab.load.packets import PingResp, Publish, PubRel

pytestmark = pytest.mark.unit

LEVEL = 4
NOBODY = np.empty(0, dtype=np.int64)


class Reader:
    """Keeps what a subscriber keeps between two calls."""

    def __init__(self, sock, *, rows=4096, counts_overtaken=False):
        self.sock, self.words, self.notes = sock, readwalk.words(), readwalk.notes()
        self.buffer, self.left = np.zeros(1 << 20, dtype=np.uint8), 0
        self.rows, self.row = np.zeros((rows, 5), dtype=np.int64), 0
        self.held, self.acks = np.zeros(wire.HELD_BYTES, dtype=np.uint8), np.zeros(1 << 16, dtype=np.uint8)
        self.highest = np.full(1, -1, dtype=np.int64) if counts_overtaken else NOBODY
        self.last_ns = self.out_of_order = self.overtaken = self.retransmissions = self.total = 0
        self.answers = b""

    def read(self, *, piece_bytes=1, most=readwalk.MOST):
        """The pieces of a call, and why it stopped."""
        at, length, why, self.row, over, pieces, whole, got, used, again, self.last_ns, self.out_of_order = (
            readwalk.read_walk(
                self.sock.fileno(), self.words, self.buffer, self.left, LEVEL, self.rows, self.row, self.held,
                self.acks, self.highest, self.notes, readwalk.CLOCKS, self.last_ns,
                self.out_of_order, piece_bytes, most,
            )
        )  # fmt: skip
        assert (whole >= got > 0) is (pieces > 0)
        self.total += whole
        self.overtaken += over
        self.retransmissions += again
        self.answers += self.acks[:used].tobytes()
        self.left = length - at
        self.buffer[: self.left] = self.buffer[at:length].copy()
        return self.notes[:pieces].tolist(), why


@pytest.fixture(scope="module")
def listener():
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.fixture(scope="module", autouse=True)
def stamping(listener):
    """The kernel begins to stamp a moment after the first socket of the machine has asked for it."""
    with connected(listener) as (sender, receiver):
        deadline = time.monotonic() + 10
        while True:
            sender.sendall(b"x")
            time.sleep(0.005)
            _, arrived = read_stamped(receiver, memoryview(bytearray(1)))
            if arrived < time.monotonic_ns() - 2_000_000:
                break
            assert time.monotonic() < deadline
        yield


@contextlib.contextmanager
def connected(listener):
    """A socket that sends, and one that receives with stamps."""
    with socket.create_connection(listener.getsockname()) as sender, listener.accept()[0] as receiver:
        sender.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        ask_for_stamps(receiver)
        yield sender, receiver


@pytest.fixture
def pair(listener):
    with connected(listener) as both:
        yield both


def wait_for_bytes(receiver):
    assert select.select([receiver], [], [], 5)[0]


def message(seq, *, qos=0, size=64, packet_id=1):
    payload = seq.to_bytes(8, "little") + (0).to_bytes(4, "little") + seq.to_bytes(4, "little") + bytes(size)
    return Publish("load/0", payload, qos, packet_id if qos else None)


messages = st.tuples(st.integers(0, 2), st.integers(0, 300), st.integers(1, 3), st.booleans())


@settings(deadline=None, max_examples=40)
@given(st.lists(messages, min_size=1, max_size=60), st.lists(st.integers(1, 400), max_size=40), st.integers(1, 500))
def test_all_that_is_sent_becomes_the_same_rows_and_answers_wherever_it_is_cut(listener, asked, cuts, piece_bytes):
    packets = []
    for seq, (qos, size, packet_id, is_released) in enumerate(asked):
        packets.append(message(seq, qos=qos, size=size, packet_id=packet_id))
        packets += [PubRel(packet_id)] if is_released and qos == 2 else []
    data = b"".join(each.encode() for each in packets)
    whole = np.frombuffer(data, dtype=np.uint8).copy()
    with connected(listener) as (sender, receiver):
        reader, told = Reader(receiver), Reader(receiver)
        at = 0
        for cut in [*cuts, len(data)]:
            sender.sendall(data[at : at + cut])
            at += cut
            reader.read(piece_bytes=piece_bytes)
        while reader.total < len(data):
            wait_for_bytes(receiver)
            reader.read()

    _, row, used, again, why = wire.walk_deliveries(
        whole, whole.size, 0, LEVEL, told.rows, 0, told.held, told.acks
    )  # fmt: skip
    assert (why, reader.left, reader.row, reader.retransmissions) == (wire.NEED_MORE, 0, row, again)
    assert reader.answers == told.acks[:used].tobytes()
    places = [0, 1, 2, 3]  # not where the message lay in the buffer
    assert (reader.rows[:row, places] == told.rows[:row, places]).all()
    assert (reader.rows[:row, 4] & 0xFF == told.rows[:row, 4] & 0xFF).all()
    assert (reader.held == told.held).all()


def test_a_piece_has_the_kernel_s_time_and_how_long_it_waited(pair):
    sender, receiver = pair
    reader, python = Reader(receiver), Stamps()
    before = time.monotonic_ns()
    sender.sendall(message(0).encode())
    sent = time.monotonic_ns()
    time.sleep(0.05)

    ((messages, arrived, lag),), _ = reader.read()

    assert messages == 1
    assert before - 1_000_000 <= arrived <= sent + 20_000_000
    assert lag >= 50_000_000 - (arrived - sent) - 1_000_000
    sender.sendall(message(1).encode())
    time.sleep(0.02)
    python.last_ns, python.out_of_order = reader.last_ns, reader.out_of_order
    _, later = python.read(receiver, memoryview(bytearray(1000)))
    assert arrived < later < time.monotonic_ns() - 10_000_000


def test_nothing_there_and_the_end_of_a_connection_are_left_to_the_caller(pair):
    sender, receiver = pair
    reader = Reader(receiver)

    assert reader.read() == ([], wire.NEED_MORE)
    sender.sendall(message(0).encode())
    wait_for_bytes(receiver)
    assert len(reader.read()[0]) == 1
    sender.close()
    receiver.settimeout(5)
    assert receiver.recv(1, socket.MSG_PEEK) == b""
    assert reader.read() == ([], wire.NEED_MORE)


def test_rows_that_are_full_and_packets_that_are_no_message_end_a_call_before_them(pair):
    sender, receiver = pair
    reader = Reader(receiver, rows=2)
    sender.sendall(b"".join(message(seq).encode() for seq in range(3)) + PingResp().encode())
    wait_for_bytes(receiver)

    pieces, why = reader.read()

    assert ([piece[0] for piece in pieces], why, reader.row) == ([2], wire.FULL, 2)
    assert reader.left == len(message(2).encode() + PingResp().encode())
    other = Reader(receiver)
    sender.sendall(PingResp().encode())
    wait_for_bytes(receiver)
    assert (other.read()[1], other.left) == (wire.OTHER, len(PingResp().encode()))


def test_what_later_ones_have_overtaken_is_counted_over_all_pieces(pair):
    sender, receiver = pair
    reader = Reader(receiver, counts_overtaken=True)
    for seq in (0, 1, 4):
        sender.sendall(message(seq).encode())
        wait_for_bytes(receiver)
        reader.read()

    assert (reader.row, reader.overtaken, reader.highest.tolist()) == (3, 2, [4])


def test_a_call_reads_no_more_pieces_than_it_may(pair):
    sender, receiver = pair
    reader = Reader(receiver)
    reader.buffer = reader.buffer[:1000].copy()
    sender.sendall(b"".join(message(seq).encode() for seq in range(40)))
    wait_for_bytes(receiver)

    assert len(reader.read(most=1)[0]) == 1
    assert 0 < reader.row < 40
    assert len(reader.read(most=2)[0]) == 2


def test_a_wait_lasts_as_long_as_asked_where_nothing_comes(pair):
    _, receiver = pair
    for fd in (receiver.fileno(), -1):
        before = time.monotonic_ns()
        assert readwalk.wait(readwalk.words(), fd, 3_000_000) == 0
        assert time.monotonic_ns() - before >= 3_000_000


@pytest.mark.parametrize("ends", [False, True])
def test_a_wait_ends_with_what_comes_and_leaves_it_there(pair, ends):
    sender, receiver = pair
    sender.sendall(b"x")
    if ends:
        sender.close()
    before = time.monotonic_ns()

    assert readwalk.wait(readwalk.words(), receiver.fileno(), 60_000_000_000) == 1
    assert time.monotonic_ns() - before < 60_000_000_000
    assert receiver.recv(10) == b"x"


def test_words_of_a_wait_serve_for_the_time_and_the_next_wait(pair):
    sender, receiver = pair
    words = readwalk.words()
    readwalk.wait(words, receiver.fileno(), 1_000)
    sender.sendall(b"x")

    before = time.monotonic_ns()
    assert before <= readwalk.monotonic_ns(words) <= time.monotonic_ns()
    assert readwalk.wait(words, receiver.fileno(), 60_000_000_000) == 1
    receiver.recv(10)
    assert readwalk.wait(words, receiver.fileno(), 0) == 0
