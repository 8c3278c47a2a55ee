"""Packets of any shape, many at a time: compiled loops that build them and write identities into them.

Like load/wire.py, which has the loop for packets of equal length and full identity, the usual case. Here the
lengths may differ and the identity may be short or stand in a text; load/identity.py reads back what is written.
A packet may be cut short: `copied` bytes of its payload are written and the caller sends the rest, which is the
same for all messages.
"""

# mypy: disable-error-code="assignment, arg-type"
# (NumPy's own integers keep Numba from widening unsigned ones to floats; to mypy they are not `int`.)

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokerlab.load.packets import encode_length
from brokerlab.load.wire import Bytes, Longs
from brokerlab.study.values import Workload

Words = NDArray[np.uint64]
Name = tuple[str, bytes]  # a topic as a PUBLISH has it, and the properties of MQTT 5.0 beside it, without their length


@njit(
    "i8(i8, u1[::1], i8[::1], b1, u1[::1], i8[::1], i8[::1], i8[::1], i8, u1[::1], i8[::1], i8[::1])",
    cache=True,
    nogil=True,
)
def build(
    first_byte: int,
    heads: Bytes,
    head_ends: Longs,
    has_id: bool,
    source: Bytes,
    begins: Longs,
    lengths: Longs,
    copied: Longs,
    first_seq: int,
    out: Bytes,
    starts: Longs,
    ends: Longs,
) -> int:
    """Writes one PUBLISH per length: payload i is `lengths[i]` bytes long and begins as `source` does at `begins[i]`.

    `heads` are the variable headers of the topics, which messages take in turn, with a packet identifier behind the
    topic or without. Fills in where payloads start and packets end in `out`; returns the number of bytes.
    """
    at = 0
    for i in range(lengths.size):
        topic = (first_seq + i) % head_ends.size
        head = heads[(head_ends[topic - 1] if topic else 0) : head_ends[topic]]
        out[at] = first_byte
        at += 1
        rest = head.size + lengths[i]
        while True:
            digit = rest & 0x7F
            rest >>= 7
            out[at] = digit | 0x80 if rest else digit
            at += 1
            if rest == 0:
                break
        out[at : at + head.size] = head
        if has_id:
            identifier = (first_seq + i) % 65_535 + 1
            behind = at + 2 + (np.int64(head[0]) << 8 | head[1])
            out[behind] = identifier >> 8
            out[behind + 1] = identifier & 0xFF
        at += head.size
        starts[i] = at
        out[at : at + copied[i]] = source[begins[i] : begins[i] + copied[i]]
        at += copied[i]
        ends[i] = at
    return at


@njit("void(u1[::1], i8[::1], i8, i8, i8[::1])", cache=True, nogil=True)
def stamp_full(out: Bytes, starts: Longs, publisher: int, first_seq: int, intended_ns: Longs) -> None:
    """The identity of wire.py."""
    for i in range(starts.size):
        place, seq = starts[i], first_seq + i
        for k in range(8):
            out[place + k] = (intended_ns[i] >> (8 * k)) & 0xFF
        for k in range(4):
            out[place + 8 + k] = (publisher >> (8 * k)) & 0xFF
            out[place + 12 + k] = (seq >> (8 * k)) & 0xFF


@njit("void(u1[::1], i8[::1], i8, i8, i8, i8)", cache=True, nogil=True)
def stamp_short(
    out: Bytes, starts: Longs, publisher_bytes: int, seq_bytes: int, publisher: int, first_seq: int
) -> None:
    """The low bytes of the publisher, then those of the sequence number, little endian."""
    for i in range(starts.size):
        place, seq = starts[i], first_seq + i
        for k in range(publisher_bytes):
            out[place + k] = (publisher >> (8 * k)) & 0xFF
        for k in range(seq_bytes):
            out[place + publisher_bytes + k] = (seq >> (8 * k)) & 0xFF


@njit("void(u1[::1], i8[::1], i8, i8, i8[::1])", cache=True, nogil=True)
def stamp_decimal(out: Bytes, starts: Longs, at: int, width: int, numbers: Longs) -> None:
    """Writes each number into its field of `width` bytes, at the right, with spaces before it."""
    for i in range(starts.size):
        rest = numbers[i]
        for k in range(width):
            place = starts[i] + at + width - 1 - k
            if k and rest == 0:
                out[place] = 32
            else:
                out[place] = 48 + rest % 10
                rest //= 10


@njit("void(u1[::1], i8[::1], i8)", cache=True, nogil=True)
def stamp_request(out: Bytes, starts: Longs, first_seq: int) -> None:
    """The sequence number in the eight bytes before each payload, little endian."""
    for i in range(starts.size):
        for k in range(8):
            out[starts[i] - 8 + k] = ((first_seq + i) >> (8 * k)) & 0xFF


@njit("void(u1[::1], i8, i8, i8)", cache=True, nogil=True)
def _put_digits(out: Bytes, at: int, number: int, width: int) -> None:
    """A number at its place, with zeros before it."""
    for k in range(width):
        out[at + width - 1 - k] = 48 + number % 10
        number //= 10


@njit("void(u1[::1], i8[::1], i8, i8[::1], u8, i8, i8, i8)", cache=True, nogil=True)
def stamp_metadata(
    out: Bytes, starts: Longs, first_seq: int, sent_us: Longs, seed: int, id_back: int, sent_back: int, order_back: int
) -> None:
    """Writes what features5.py describes, so many bytes before each payload; the words of an identifier are `drawn`."""
    for i in range(starts.size):
        start, seq = starts[i], first_seq + i
        _put_digits(out, start - sent_back, sent_us[i] // 1000, 13)
        _put_digits(out, start - sent_back + 14, sent_us[i] % 1000, 3)
        _put_digits(out, start - order_back, seq, 10)
        for word in range(4):
            mixed = (np.uint64(seq) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + seed + np.uint64(word)
            mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
            mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
            mixed ^= mixed >> np.uint64(31)
            for digit in range(16):
                value = np.int64((mixed >> np.uint64(4 * digit)) & np.uint64(15))
                out[start - id_back + 16 * word + digit] = value + (48 if value < 10 else 87)


@dataclass(frozen=True, slots=True)
class Heads:
    """The variable headers of a publisher's messages, one for each of its topics, and their first byte."""

    first_byte: int
    data: Bytes
    ends: Longs
    has_id: bool  # whether a packet identifier follows each topic
    longest: int


def heads_of(names: Sequence[Name], workload: Workload, *, level: int) -> Heads:
    heads = [_head(topic.encode(), block, has_id=workload.qos > 0, level=level) for topic, block in names]
    return Heads(
        first_byte=0x30 | workload.qos << 1 | int(workload.retain),
        data=np.frombuffer(b"".join(heads), dtype=np.uint8).copy(),
        ends=np.cumsum([len(head) for head in heads], dtype=np.int64),
        has_id=workload.qos > 0,
        longest=max(map(len, heads)),
    )


def _head(topic: bytes, block: bytes, *, has_id: bool, level: int) -> bytes:
    properties = encode_length(len(block)) + block if level == 5 else b""
    return len(topic).to_bytes(2, "big") + topic + (b"\0\0" if has_id else b"") + properties


def packet_bytes(rest: int) -> int:
    """The length of a packet whose fixed header is followed by so many bytes."""
    return 1 + len(encode_length(rest)) + rest


def drawn(seed: int, seqs: Longs) -> Words:
    """A random number of 64 bits for each sequence number: splitmix64 of (seed, seq), however they are cut."""
    with np.errstate(over="ignore"):
        mixed = (seqs.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return mixed ^ (mixed >> np.uint64(31))
