"""From the bytes of a message to (publisher, seq), where its payload does not begin with the full identity.

load/wire.py notes for each message where its packet lies in the buffer; the compiled pass here reads the identity
in the form that the workload has (study/identity.py) and puts it in the place of what the walk took for one.
The intended time is known from the payload in full and text forms alone; the pipeline takes it from the publications.

A short sequence number of b bytes stands for one of a window of 256^b around the expected one:

    expected - window/8 <= seq < expected + 7/8 window

so duplicates and late messages that are less than an eighth of the window old are told apart exactly, and up to
seven eighths of a window may be lost in a row.
"""

# mypy: disable-error-code="assignment, return-value, arg-type, no-any-return"
# (NumPy's own integers keep Numba from widening unsigned ones to floats; to mypy they are not `int`.)

from dataclasses import dataclass

import numpy as np
from numba import njit

from brokerlab.load.shapes import Words
from brokerlab.load.wire import Bytes, Longs
from brokerlab.study import identity
from brokerlab.study.identity import Identity
from brokerlab.study.template import WIDTHS, read_template
from brokerlab.study.topics import topics_of
from brokerlab.study.values import Workload

UNKNOWN_NS = np.iinfo(np.int64).min  # the intended time of a message that does not carry it

_ORDER, _SHORT, _TEXT = 0, 1, 2
_KINDS = {Identity.ORDER: _ORDER, Identity.SHORT: _SHORT, Identity.TEXT: _TEXT}
_SEQ_DIGITS, _PUBLISHER_DIGITS, _TIME_DIGITS = WIDTHS["seq"], WIDTHS["publisher"], WIDTHS["intended_ns"]


@njit("u8(u1[::1], i8, i8)", cache=True, nogil=True)
def hashed(buffer: Bytes, at: int, size: int) -> int:
    """FNV-1a of 64 bits."""
    value = np.uint64(0xCBF29CE484222325)
    for k in range(size):
        value = (value ^ np.uint64(buffer[at + k])) * np.uint64(0x100000001B3)
    return value


@njit("i8(u1[::1], i8, i8)", cache=True, nogil=True)
def _decimal(buffer: Bytes, at: int, width: int) -> int:
    """The number in a field; -1 where it holds anything but spaces and then digits."""
    value = np.int64(-1)
    for k in range(width):
        digit = np.int64(buffer[at + k]) - 48
        if 0 <= digit <= 9:
            value = digit if value < 0 else 10 * value + digit
        elif digit != -16 or value >= 0:  # a space is 32
            return -1
    return value


@njit("i8(u8[::1], u8)", cache=True, nogil=True)
def place_in(ascending: Words, value: int) -> int:
    at = np.searchsorted(ascending, value)
    return at if at < ascending.size and ascending[at] == value else -1


@njit("i8(u1[::1], i8, i8)", cache=True, nogil=True)
def _little(buffer: Bytes, at: int, count: int) -> int:
    value = np.int64(0)
    for k in range(count):
        value |= np.int64(buffer[at + k]) << (8 * k)
    return value


@njit("i8(u1[::1], i8, i8, i8)", cache=True, nogil=True)
def payload_at(buffer: Bytes, begin: int, first: int, level: int) -> int:
    """Where the payload of a PUBLISH begins whose variable header begins at `begin`; the walk has checked it."""
    at = begin + 2 + (np.int64(buffer[begin]) << 8 | buffer[begin + 1])
    at += 2 if (first >> 1) & 3 else 0
    if level >= 5:
        size, k = 0, 0
        while True:
            digit = np.int64(buffer[at])
            size |= (digit & 0x7F) << (7 * k)
            at, k = at + 1, k + 1
            if digit < 0x80:
                break
        at += size
    return at


@njit("void(u1[::1], i8, i8[:, ::1], i8, i8, i8[::1], u8[::1], i8[::1], i8[::1])", cache=True, nogil=True)
def _resolve(
    buffer: Bytes, level: int, rows: Longs, row: int, until: int, form: Longs, topics: Words, owners: Longs,
    expected: Longs,
) -> None:  # fmt: skip
    """Completes the rows of a walk; `expected` is the next sequence number of each publisher at this subscriber.

    `form` is (kind, publisher bytes, seq bytes, places of seq, publisher and intended time in a text, its length).
    """
    for r in range(row, until):
        first, begin, size = rows[r, 4] & 0xFF, rows[r, 4] >> 8, rows[r, 3]
        payload = payload_at(buffer, begin, first, level)
        publisher, seq, intended = np.int64(-1), np.int64(-1), np.int64(UNKNOWN_NS)
        if form[0] == _TEXT:
            if size >= form[6]:
                seq = _decimal(buffer, payload + form[3], _SEQ_DIGITS)
                if form[4] >= 0:
                    publisher = _decimal(buffer, payload + form[4], _PUBLISHER_DIGITS)
                if form[5] >= 0:
                    intended = _decimal(buffer, payload + form[5], _TIME_DIGITS)
        elif form[1] and size >= form[1] + form[2]:
            publisher = _little(buffer, payload, form[1])
        if (form[0] == _TEXT and form[4] < 0) or (form[0] != _TEXT and form[1] == 0):
            name = np.int64(buffer[begin]) << 8 | buffer[begin + 1]
            place = place_in(topics, hashed(buffer, begin + 2, name))
            publisher = owners[place] if place >= 0 else np.int64(-1)
        if publisher < 0 or publisher >= expected.size:
            publisher, seq = np.int64(-1), np.int64(-1)
        elif form[0] == _ORDER:
            seq = expected[publisher]
            expected[publisher] += 1
        elif form[0] == _SHORT and size >= form[1] + form[2]:
            window = np.int64(1) << (8 * form[2])
            oldest = max(np.int64(0), expected[publisher] - window // 8)
            seq = oldest + (_little(buffer, payload + form[1], form[2]) - oldest) % window
            expected[publisher] = max(expected[publisher], seq + 1)
        rows[r, 0], rows[r, 1], rows[r, 2] = publisher, seq, intended


@dataclass(frozen=True, slots=True)
class Resolver:
    """Reads the identities of one workload."""

    form: Longs
    topics: Words  # hashes, ascending
    owners: Longs  # the publisher of each
    publishers: int

    def expected(self) -> Longs:
        """What a subscriber expects before its first message."""
        return np.zeros(self.publishers, dtype=np.int64)

    def resolve(self, buffer: Bytes, level: int, rows: Longs, row: int, until: int, expected: Longs) -> None:
        """Completes the rows that one walk of the buffer made, while the buffer still holds their packets."""
        _resolve(buffer, level, rows, row, until, self.form, self.topics, self.owners, expected)


def own_resolver(workload: Workload) -> Resolver | None:
    """None where payloads begin with the full identity, which the walk reads itself."""
    kind = identity.identity_of(workload)
    if kind is Identity.FULL:
        return None
    form = [_KINDS[kind], 0, 0, -1, -1, -1, 0]
    if kind is Identity.TEXT:
        template = read_template(workload.payload.template or "")
        form[3:] = [template.seq_at, template.publisher_at, template.intended_at, len(template.text)]
    else:
        form[1] = identity.publisher_bytes(workload) if kind is Identity.SHORT else 0
        form[2] = identity.seq_bytes(workload) if kind is Identity.SHORT else 0
    topics, owners = owners_of(workload)
    return Resolver(np.array(form, dtype=np.int64), topics, owners, workload.publishers)


def owners_of(workload: Workload) -> tuple[Words, Longs]:
    """Hashes of the publishers' topics, ascending, and who publishes to each."""
    if not identity.tells_publishers_apart(workload):
        return np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64)
    every = [(number, name) for number in range(workload.publishers) for name in topics_of(workload.topics, number)]
    names = [np.frombuffer(name.encode(), dtype=np.uint8).copy() for _, name in every]
    hashes = np.array([hashed(name, 0, name.size) for name in names], np.uint64)
    owners = np.array([number for number, _ in every], dtype=np.int64)
    order = np.argsort(hashes)
    return hashes[order], owners[order]
