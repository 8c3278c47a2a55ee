"""The compiled walks on the target's side of a bridge; walks.py has the tables and the source's side.

build           rows -> packets for the target, each noted in the tables
walk_answers    the target's acknowledgements -> which messages are through
release         what is through -> which pieces of memory are not needed any more
"""

# mypy: disable-error-code="assignment, return-value, arg-type, no-any-return"

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from brokerlab.bridge.walks import (
    DONE,
    DOWNSTREAM,
    END,
    FIRST,
    FREE,
    LANE,
    ONE,
    PAYLOAD_AT,
    PROPERTIES_AT,
    PROPERTIES_BYTES,
    RECEIVED,
    TOPIC_AT,
    TOPIC_BYTES,
    TWO,
    UPSTREAM,
    Bytes,
    Longs,
    digest_of,
    head,
    put_memory,
)
from brokerlab.load.echowalk import _two

CHUNKS = 4096  # pieces of memory that a lane may have, at most


@njit(cache=True, nogil=True)
def _length_bytes(size: int) -> int:
    return 1 if size < 128 else 2 if size < 16_384 else 3 if size < 2_097_152 else 4


@njit(cache=True, nogil=True)
def _write_length(out: Bytes, at: int, size: int) -> int:
    while size >= 128:
        out[at] = size & 0x7F | 0x80
        size >>= 7
        at += 1
    out[at] = size
    return at + 1


@njit(cache=True, nogil=True)
def _body_bytes(row: Any, level: int, mark_bytes: int) -> int:
    size = 2 + row[TOPIC_BYTES] + row[END] - row[PAYLOAD_AT] + (2 if row[FIRST] & 6 else 0)
    if level >= 5:
        properties = row[PROPERTIES_BYTES] + mark_bytes
        size += _length_bytes(properties) + properties
    return size


@njit(cache=True, nogil=True)
def measure(rows: Longs, count: int, lane: int, level: int, mark_bytes: int) -> tuple[int, int]:
    """How many messages of the rows go over the lane, and how many bytes they make."""
    found = 0
    total = 0
    for number in range(count):
        if rows[number, LANE] == lane:
            size = _body_bytes(rows[number], level, mark_bytes)
            found += 1
            total += 1 + _length_bytes(size) + size
    return found, total


@njit(cache=True, nogil=True)
def _note(row: Any, lane: int, cursor: int, qos: int, up: Any, down: Any) -> int:
    """Gives the message an identifier of ours, and notes which; one that it had before is kept."""
    identifier = row[UPSTREAM]
    ours = row[DOWNSTREAM]
    if ours == 0:
        ours = cursor % 65_535 + 1
        while down.state[lane, ours] != FREE:
            ours = ours % 65_535 + 1
    down.source[lane, ours] = identifier
    down.state[lane, ours] = ONE if qos == 1 else TWO
    down.is_held[lane, ours] = 1
    if identifier:
        up.lane[identifier], up.downstream[identifier] = lane, ours
        up.state[identifier] = ONE if qos == 1 else TWO
    return ours


@njit(cache=True, nogil=True)
def build(
    source: Bytes, names: Bytes, rows: Longs, count: int, lane: int, level: int, flags: int, mark: Bytes, cursor: int,
    memory: Any, now_s: int, up: Any, down: Any, chunk: int, chunk_of: Longs, out: Bytes, ends: Longs, ids: Longs,
) -> int:  # fmt: skip
    """Writes the packets of the lane's rows to `out`, with where each ends and its identifier (0 at QoS 0).

    Topics lie in `names`, all else in `source`; `flags` are those of the first byte that are kept.
    Returns the last identifier that was given.
    """
    at = 0
    written = 0
    for number in range(count):
        row = rows[number]
        if row[LANE] != lane:
            continue
        qos = (row[FIRST] >> 1) & 3
        is_again = row[DOWNSTREAM] != 0
        out[at] = 0x30 | row[FIRST] & flags | (8 if is_again else 0)
        size = _body_bytes(row, level, mark.size)
        at = _write_length(out, at + 1, size)
        topic_bytes = row[TOPIC_BYTES]
        out[at], out[at + 1] = topic_bytes >> 8, topic_bytes & 0xFF
        out[at + 2 : at + 2 + topic_bytes] = names[row[TOPIC_AT] : row[TOPIC_AT] + topic_bytes]
        at += 2 + topic_bytes
        ours = 0
        if qos:
            ours = _note(row, lane, cursor, qos, up, down)
            cursor = cursor if is_again else ours
            chunk_of[ours] = chunk
            out[at], out[at + 1] = ours >> 8, ours & 0xFF
            at += 2
        if level >= 5:
            at = _write_length(out, at, row[PROPERTIES_BYTES] + mark.size)
            begin = row[PROPERTIES_AT]
            out[at : at + row[PROPERTIES_BYTES]] = source[begin : begin + row[PROPERTIES_BYTES]]
            at += row[PROPERTIES_BYTES]
            out[at : at + mark.size] = mark
            at += mark.size
        payload_bytes = row[END] - row[PAYLOAD_AT]
        out[at : at + payload_bytes] = source[row[PAYLOAD_AT] : row[END]]
        if memory.keys.size:
            name = digest_of(names, row[TOPIC_AT], row[TOPIC_AT] + topic_bytes, 0)
            put_memory(memory, digest_of(source, row[PAYLOAD_AT], row[END], name), now_s, row[FIRST] & 8 != 0)
        at += payload_bytes
        ends[written], ids[written] = at, ours
        written += 1
    return cursor


@njit(cache=True, nogil=True)
def walk_answers(
    buffer: Bytes, length: int, at: int, lane: int, up: Any, down: Any, out: Bytes, through: Longs, refused: Longs
) -> tuple[int, int, int, int, int]:
    """Reads the target's acknowledgements from `at`; writes PUBRELs, and the identifiers of what is through.

    What the target refuses (MQTT 5.0: a reason code from 0x80 on) is noted as identifier << 8 | code.
    The caller frees the identifiers: first the source's table is written, then ours, whatever stops the bridge.
    Returns (next position, bytes of PUBRELs, through, refused, why it stopped).
    """
    used = 0
    done = 0
    no = 0
    while at < length:
        begin, end = head(buffer, length, at)
        if begin < 0:
            return at, used, done, no, end
        kind = np.int64(buffer[at]) >> 4
        if end - begin < 2 or (kind != 4 and kind != 5 and kind != 7):
            return at, used, done, no, 1
        if used + 4 > out.size or done >= through.size or no >= refused.size:
            return at, used, done, no, 3
        identifier = _two(buffer, begin)
        reason = np.int64(buffer[begin + 2]) if end - begin > 2 else 0
        state = down.state[lane, identifier]
        is_refused = reason >= 0x80 and ((kind == 4 and state == ONE) or (kind == 5 and state == TWO))
        if is_refused:
            refused[no] = identifier << 8 | reason
            no += 1
        elif kind == 5 and reason < 0x80:
            if state == TWO:
                down.state[lane, identifier] = RECEIVED
            out[used], out[used + 1], out[used + 2], out[used + 3] = 0x62, 2, buffer[begin], buffer[begin + 1]
            used += 4
        elif (kind == 4 and state == ONE) or (kind == 7 and state == RECEIVED):
            asked = down.source[lane, identifier]
            is_its = up.downstream[asked] == identifier and up.lane[asked] == lane
            if asked and is_its and up.state[asked] == (ONE if kind == 4 else TWO):
                if kind == 7:
                    up.state[asked] = DONE
                if up.place[asked] >= 0:
                    up.order_done[up.place[asked]] = 1
            through[done] = identifier
            done += 1
        at = end
    return at, used, done, no, 0


@njit(cache=True, nogil=True)
def release(ids: Longs, count: int, lane: int, down: Any, chunk_of: Longs, live: Longs) -> None:
    """Frees identifiers of ours, and counts them off the pieces of memory that hold their bytes."""
    for number in range(count):
        ours = ids[number]
        if down.is_held[lane, ours]:
            live[chunk_of[ours] & (CHUNKS - 1)] -= 1
        down.is_held[lane, ours] = 0
        down.state[lane, ours] = FREE


@njit(cache=True, nogil=True)
def again(
    data: Bytes, ends: Longs, ids: Longs, lane: int, down: Any, is_resumed: bool, out: Bytes
) -> tuple[int, int]:  # fmt: skip
    """What of a piece of memory must be sent again after the connection was lost: (bytes, messages).

    In a session that the target kept: PUBLISH with DUP, or PUBREL where it has the message. In a new one all of it.
    """
    used = 0
    count = 0
    begin = 0
    for number in range(ends.size):
        end, ours = ends[number], ids[number]
        if ours and down.is_held[lane, ours] and down.state[lane, ours] != FREE:
            if is_resumed and down.state[lane, ours] == RECEIVED:
                out[used], out[used + 1], out[used + 2], out[used + 3] = 0x62, 2, ours >> 8, ours & 0xFF
                used += 4
            else:
                out[used : used + end - begin] = data[begin:end]
                if is_resumed:
                    out[used] |= 8
                elif down.state[lane, ours] == RECEIVED:
                    down.state[lane, ours] = TWO
                used += end - begin
                count += 1
        begin = end
    return used, count


def ids_in(state: NDArray[np.uint8], value: int) -> Longs:
    """The identifiers in a state."""
    return np.flatnonzero(state == value).astype(np.int64)
