"""From records to TCP segments: link, network and transport headers, and to whose connection a segment belongs.

A segment is a row of four numbers, 32 bytes, in which form it travels between Spark's tasks:

    AT      nanoseconds since 1970
    PLACE   where its data begins in the file
    SEQ     sequence number << 32 | bytes of data
    SIZES   bytes on the wire << 40 | bytes of data in the file << 16 | to the broker << 8 | TCP flags
"""

# mypy: disable-error-code="assignment, return-value, arg-type, operator, no-any-return"

import socket
from dataclasses import dataclass

import numpy as np

from brokerlab.pipeline.capture.compiled import Bools, Bytes, Longs, big16, big32, byte, compiled

AT, PLACE, SEQ, SIZES = range(4)
FIN, SYN, RST = 1, 2, 4
TO_BROKER = 1 << 8

NULL, ETHERNET, RAW_BSD, RAW, LOOP, COOKED, IPV4, IPV6, COOKED2 = 0, 1, 12, 101, 108, 113, 228, 229, 276
LINKS = (NULL, ETHERNET, RAW_BSD, 14, RAW, LOOP, COOKED, IPV4, IPV6, COOKED2)

# What a part of a file comes to beside its segments.
TALLIES = (
    "frames",
    "wire_bytes",
    "other_frames",  # neither from nor to a port of the broker, or not TCP
    "other_bytes",  # on the wire
    "fragments",  # of IP: not put together
    "short_frames",  # headers that are not in the file as a whole
    "foreign_frames",  # of a link type that is not read
    "backwards_frames",  # captured before the one in front of it
)
_FRAMES, _WIRE, _OTHER, _OTHER_BYTES, _FRAGMENTS, _SHORT, _FOREIGN, _BACKWARDS = range(8)
_TCP = 6


@dataclass(frozen=True, slots=True)
class Segments:
    """Segments by connection, each in the order of the file: rows[starts[k]:starts[k + 1]] are those of the k-th."""

    rows: Longs
    starts: Longs
    names: list[tuple[str, str]]  # client and broker, as address:port
    tallies: Longs


@compiled("i8(u1[::1], i8, i8, i8)")
def network_at(data: Bytes, at: int, end: int, link: int) -> int:
    """Where the IP header begins; -1 for a foreign link type, -2 for another protocol, -3 for a short frame."""
    if link == ETHERNET:
        kind_at = at + 12
    elif link == COOKED:
        kind_at = at + 14
    elif link == COOKED2:
        return at + 20 if at + 20 <= end and big16(data, at) in (0x0800, 0x86DD) else (-2 if at + 20 <= end else -3)
    elif link in (NULL, LOOP):  # an address family, of which only the host knows the byte order: the version tells
        return at + 4 if at + 4 < end else -3
    elif link in (RAW_BSD, 14, RAW, IPV4, IPV6):
        return at if at < end else -3
    else:
        return -1
    if kind_at + 2 > end:
        return -3
    while big16(data, kind_at) in (0x8100, 0x88A8, 0x9100):  # VLAN tags
        kind_at += 4
        if kind_at + 2 > end:
            return -3
    return kind_at + 2 if big16(data, kind_at) in (0x0800, 0x86DD) else -2


@compiled("UniTuple(i8, 2)(u1[::1], i8, i8, i8)")
def transport_at(data: Bytes, at: int, end: int, wire_end: int) -> tuple[int, int]:
    """Where the TCP header begins and where the IP packet ends; (-2, 0) other, (-3, 0) short, (-4, 0) a fragment.

    A packet that the network card was to cut up may say 0 for its length: then it ends with the frame.
    """
    version = data[at] >> 4
    if version == 4:
        if at + 20 > end:
            return -3, 0
        total = big16(data, at + 2)
        if big16(data, at + 6) & 0x3FFF:
            return -4, 0
        if data[at + 9] != _TCP:
            return -2, 0
        return at + 4 * (np.int64(data[at]) & 15), at + total if total else wire_end
    if version != 6:
        return -2, 0
    if at + 40 > end:
        return -3, 0
    total, following, place = big16(data, at + 4), np.int64(data[at + 6]), at + 40
    packet_end = at + 40 + total if total else wire_end
    while following in (0, 43, 44, 51, 60):
        if place + 8 > end:
            return -3, 0
        if following == 44:
            if big16(data, place + 2) & 0xFFF9:
                return -4, 0
            size = 8
        else:
            size = 4 * (np.int64(data[place + 1]) + 2) if following == 51 else 8 * (np.int64(data[place + 1]) + 1)
        following = np.int64(data[place])
        place += size
    return (place, packet_end) if following == _TCP else (-2, 0)


@compiled("b1(u1[::1], i8, i8, i8)", is_inlined=True)
def is_plain(data: Bytes, at: int, end: int, link: int) -> bool:
    """Whether it is TCP in IPv4 without options or fragments on Ethernet, as nearly always: its headers have one place.

    Places are unsigned, because for others Numba asks at each byte whether it counts from the end.
    """
    k = np.uint64(at)
    return (
        link == ETHERNET and at + 54 <= end and data[k + np.uint64(12)] == 8 and data[k + np.uint64(13)] == 0
        and data[k + np.uint64(14)] == 0x45 and data[k + np.uint64(23)] == _TCP
        and data[k + np.uint64(20)] & 0x3F == 0 and data[k + np.uint64(21)] == 0
    )  # fmt: skip


@compiled("u8(u1[::1], i8, i8, i8)", is_inlined=True)
def _connection_key(data: Bytes, ip: int, tcp: int, to_broker: int) -> int:
    """The same number for both directions of a connection; two of a file's connections share one by 64-bit chance."""
    size, first = (4, ip + 12) if byte(data, ip) >> 4 == 4 else (16, ip + 8)
    client, broker = (first, first + size) if to_broker else (first + size, first)
    client_port, broker_port = (tcp, tcp + 2) if to_broker else (tcp + 2, tcp)
    key = np.uint64(big16(data, client_port) << 16 | big16(data, broker_port))
    for k in range(0, size, 4):
        key ^= np.uint64(big32(data, client + k) << 32 | big32(data, broker + k))
        key *= np.uint64(0x9E3779B97F4A7C15)
        key ^= key >> np.uint64(29)
    return key


@compiled("i8(u8[::1], i8[::1], u8, i8)", is_inlined=True)
def _number_of(keys: Longs, numbers: Longs, key: int, next_number: int) -> int:
    """The number of a key in an open hash table; a new key gets the next one."""
    mask = np.uint64(keys.size - 1)
    slot = key & mask
    while numbers[slot] >= 0:
        if keys[slot] == key:
            return numbers[slot]
        slot = (slot + np.uint64(1)) & mask
    keys[slot], numbers[slot] = key, next_number
    return next_number


@compiled("i8(u1[::1], i8[:, ::1], i8, b1[::1], i8[::1], i8[:, ::1], i8[::1], i8[:, ::1], u8[::1], i8[::1], i8[::1])")
def read_frames(
    data: Bytes, records: Longs, first: int, is_port: Bools, tallies: Longs, rows: Longs, owners: Longs, firsts: Longs,
    keys: Longs, numbers: Longs, state: Longs,
) -> int:  # fmt: skip
    """Segments in the order of the file, the connection of each, and (IP, TCP, direction) of a connection's first.

    How many records were read: not all where half of the hash table, `keys` and `numbers`, is full. `state` is how
    many segments and connections there are, the time of the record before, and which share this is of how many.
    """
    n, connections, before_ns = state[0], state[1], state[2]
    share, shares = np.uint64(state[3]), np.uint64(state[4])
    r = first
    while r < records.shape[0] and 2 * connections < keys.size:
        at, wire, at_ns = records[r, 0], records[r, 2], records[r, 3]
        end, link = at + records[r, 1], records[r, 4]
        r += 1
        tallies[_FRAMES] += 1
        tallies[_WIRE] += wire
        tallies[_BACKWARDS] += at_ns < before_ns
        before_ns = at_ns
        if is_plain(data, at, end, link):
            ip, tcp = at + 14, at + 34
            total = big16(data, ip + 2)
            packet_end = ip + total if total else at + wire
        else:
            ip = network_at(data, at, end, link)
            tcp, packet_end = (ip, 0) if ip < 0 else transport_at(data, ip, end, at + wire)
            if tcp >= 0 and tcp + 20 > end:
                tcp = -3
        if tcp < 0:
            tallies[_FOREIGN] += tcp == -1
            tallies[_SHORT] += tcp == -3
            tallies[_FRAGMENTS] += tcp == -4
            tallies[_OTHER] += tcp == -2
            tallies[_OTHER_BYTES] += wire if tcp == -2 else 0
            continue
        to_broker = is_port[big16(data, tcp + 2)]
        if not to_broker and not is_port[big16(data, tcp)]:
            tallies[_OTHER] += 1
            tallies[_OTHER_BYTES] += wire
            continue
        key = _connection_key(data, ip, tcp, to_broker)
        if shares > 1 and (key >> np.uint64(32)) * shares >> np.uint64(32) != share:  # dividing takes longer
            continue
        owner = _number_of(keys, numbers, key, connections)
        if owner == connections:
            firsts[owner, 0], firsts[owner, 1], firsts[owner, 2] = ip, tcp, to_broker
            connections += 1
        place = tcp + 4 * (byte(data, tcp + 12) >> 4)
        length = max(packet_end - place, 0)
        present = min(max(end - place, 0), length)
        rows[n, 0], rows[n, 1] = at_ns, place
        rows[n, 2] = big32(data, tcp + 4) << 32 | length
        rows[n, 3] = wire << 40 | present << 16 | to_broker << 8 | byte(data, tcp + 13)
        owners[n] = owner
        n += 1
    state[0], state[1], state[2] = n, connections, before_ns
    return r


@compiled("void(i8[:, ::1], i8[::1], i8[::1], i8[:, ::1])")
def _by_connection(rows: Longs, owners: Longs, place: Longs, ordered: Longs) -> None:
    """Puts each row to the place that is next for its connection."""
    for r in range(rows.shape[0]):
        to = place[owners[r]]
        ordered[to, 0], ordered[to, 1], ordered[to, 2], ordered[to, 3] = rows[r, 0], rows[r, 1], rows[r, 2], rows[r, 3]
        place[owners[r]] += 1


class SegmentReading:
    """Segments from and to these ports, as records come; whatever else was captured is counted.

    Of several shares of the connections it may take one; which connection is whose follows from its addresses.
    """

    def __init__(self, data: Bytes, ports: tuple[int, ...], *, share: int = 0, shares: int = 1) -> None:
        self._data = data
        self._is_port = np.zeros(65_536, dtype=np.bool_)
        self._is_port[list(ports)] = True
        self._shares = (share, shares)
        self._rows, self._owners = np.empty((1 << 16, 4), dtype=np.int64), np.empty(1 << 16, dtype=np.int64)
        self._begin()

    def _begin(self) -> None:
        self.tallies = np.zeros(len(TALLIES), dtype=np.int64)
        self._state = np.array([0, 0, 0, *self._shares], dtype=np.int64)
        self._keys, self._numbers = np.empty(0, dtype=np.uint64), np.empty(0, dtype=np.int64)
        self._firsts = np.empty((0, 3), dtype=np.int64)
        self._more_connections()

    def add(self, records: Longs) -> None:
        if self._state[0] + len(records) > len(self._rows):
            self._more_segments(int(self._state[0]) + len(records))
        read = 0
        while read < len(records):
            read = read_frames(
                self._data, records, read, self._is_port, self.tallies, self._rows, self._owners, self._firsts,
                self._keys, self._numbers, self._state,
            )  # fmt: skip
            if read < len(records):
                self._more_connections()

    def __len__(self) -> int:
        """How many segments wait to be taken."""
        return int(self._state[0])

    @property
    def connections(self) -> int:
        """How many connections they are of."""
        return int(self._state[1])

    def take(self) -> Segments:
        """What has come by now; what comes after that is counted anew."""
        n, connections = self._state[:2].tolist()
        owners = self._owners[:n]
        starts = np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=connections))]).astype(np.int64)
        ordered = np.empty((n, 4), dtype=np.int64)
        _by_connection(self._rows[:n], owners, starts.copy(), ordered)
        names = [_names(self._data, *first) for first in self._firsts[:connections].tolist()]
        segments, before_ns = Segments(ordered, starts, names, self.tallies), self._state[2]
        self._begin()
        self._state[2] = before_ns
        return segments

    def _more_segments(self, least: int) -> None:
        size, n = max(least, 4 * len(self._rows)), self._state[0]
        rows, owners = np.empty((size, 4), dtype=np.int64), np.empty(size, dtype=np.int64)
        rows[:n], owners[:n] = self._rows[:n], self._owners[:n]
        self._rows, self._owners = rows, owners

    def _more_connections(self) -> None:
        """A larger hash table, with the connections that are known."""
        slots = max(1 << 12, 8 * self._keys.size)
        keys, numbers = np.empty(slots, dtype=np.uint64), np.full(slots, -1, dtype=np.int64)
        for slot in np.flatnonzero(self._numbers >= 0).tolist():
            _number_of(keys, numbers, self._keys[slot], self._numbers[slot])
        firsts = np.empty((slots // 2 + 1, 3), dtype=np.int64)
        firsts[: self._state[1]] = self._firsts[: self._state[1]]
        self._keys, self._numbers, self._firsts = keys, numbers, firsts


def read_segments(data: Bytes, records: Longs, ports: tuple[int, ...]) -> Segments:
    """The segments from and to these ports; whatever else was captured is counted."""
    reading = SegmentReading(data, ports)
    reading.add(records)
    return reading.take()


def _names(data: Bytes, ip: int, tcp: int, to_broker: int) -> tuple[str, str]:
    family, size, first = (socket.AF_INET, 4, 12) if data[ip] >> 4 == 4 else (socket.AF_INET6, 16, 8)
    ends = []
    for place, port_at in ((ip + first, tcp), (ip + first + size, tcp + 2)):
        address = socket.inet_ntop(family, data[place : place + size].tobytes())
        ends.append(f"[{address}]:{big16(data, port_at)}" if size == 16 else f"{address}:{big16(data, port_at)}")
    return (ends[0], ends[1]) if to_broker else (ends[1], ends[0])
