"""Publications that came to a broker, and those that left it: which is which, and how long each took.

A publication is a row of five numbers:

    KEY       of its topic and payload: the same when it leaves as when it came
    FIRST, LAST   nanoseconds since 1970 of the first and the last frame that carried it
    WHO       its connection
    ABOUT     payload bytes << 8 | flags

A message that looks like no other is known by its key. Of those that look alike (a switch that says «on» again)
the first that left is the first that came, for each receiver, where as many left as came; otherwise nobody can tell
which is missing, and they are counted as ambiguous.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from brokerlab.pipeline.capture import mqtt
from brokerlab.pipeline.capture.compiled import Bools, Longs
from brokerlab.pipeline.capture.taps import Phases
from brokerlab.pipeline.reduce.latency import Tally
from brokerlab.pipeline.schemas.legs import FROM_BROKER, THROUGH_BROKER, TO_BROKER

KEY, FIRST, LAST, WHO, ABOUT = range(5)
COLUMNS = 5
IS_IN, IS_KNOWN, IS_AGAIN, IS_COUNTED = 1, 2, 4, 8  # of ABOUT; counted: in the times that results are about
OTHERS = "others from broker"  # a leg for publications that were not seen to come

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_DUP = 8 << 4


def messages_in(packets: Longs, phases: Phases, *, who: int) -> Longs:
    """The publications among the packets of one connection, without those of the broker about itself."""
    kind = packets[:, mqtt.KIND]
    own = packets[((kind & 15) == mqtt.PUBLISH) & ((kind & mqtt.IS_SYSTEM) == 0)]
    kind, is_in = own[:, mqtt.KIND], (own[:, mqtt.KIND] & mqtt.FROM_CLIENT) > 0
    is_known = ((kind & mqtt.IS_WHOLE) > 0) & (own[:, mqtt.TOPIC_BYTES] >= 0) & (own[:, mqtt.PAYLOAD_BYTES] >= 0)
    flags = (
        IS_IN * is_in + IS_KNOWN * is_known + IS_AGAIN * ((kind & _DUP) > 0) + IS_COUNTED * _counted(own, is_in, phases)
    )
    rows = np.empty((len(own), 5), dtype=np.int64)
    topic, payload = own[:, mqtt.TOPIC].view(np.uint64), own[:, mqtt.PAYLOAD].view(np.uint64)
    rows[:, KEY] = ((topic * _GOLDEN) ^ payload).view(np.int64)
    rows[:, FIRST], rows[:, LAST], rows[:, WHO] = own[:, mqtt.FIRST_NS], own[:, mqtt.LAST_NS], who
    rows[:, ABOUT] = np.maximum(own[:, mqtt.PAYLOAD_BYTES], 0) << 8 | flags
    return rows


def _counted(own: Longs, is_in: Bools, phases: Phases) -> Bools:
    """What came in the measure phase, and what left in it or while it drained; all, in a run without phases."""
    measure, drain = phases.window("measure", "measure"), phases.window("measure", "drain")
    if measure is None:
        return np.full(len(own), not phases.starts.size)
    first, last = own[:, mqtt.FIRST_NS], own[:, mqtt.LAST_NS]
    came = (first >= measure[0]) & (first < measure[1])
    end_ns = (drain or measure)[1]
    return np.where(is_in, came, (last >= measure[0]) & (last < end_ns))


def by_bucket(rows: Longs, buckets: int) -> Iterator[tuple[int, Longs]]:
    """The rows of each bucket; a message's are all in one."""
    bucket = (rows[:, KEY].view(np.uint64) >> np.uint64(33)) % np.uint64(buckets)
    order = np.argsort(bucket, kind="stable")
    edges = np.searchsorted(bucket[order], np.arange(buckets + 1))
    for number in range(buckets):
        if edges[number] < edges[number + 1]:
            yield number, rows[order[edges[number] : edges[number + 1]]]


@dataclass(frozen=True, slots=True)
class _Pairs:
    latency_ns: Longs
    unmatched: int
    ambiguous: int


def legs_of(taps: dict[str, Longs]) -> Iterator[dict[str, Any]]:
    """Rows of schemas.captured.MATCHED but run_id, of one bucket of a run."""
    came = {tap: _firsts(rows[(rows[:, ABOUT] & IS_IN) > 0]) for tap, rows in taps.items()}
    left = {tap: _firsts(rows[(rows[:, ABOUT] & IS_IN) == 0]) for tap, rows in taps.items()}
    for tap in taps:
        is_counted = (came[tap][:, ABOUT] & IS_COUNTED) > 0
        is_heard = np.isin(left[tap][:, KEY], came[tap][is_counted][:, KEY])
        is_other = ~is_heard & ((left[tap][:, ABOUT] & IS_COUNTED) > 0)
        yield _leg(tap, TO_BROKER, came[tap][is_counted], FIRST)
        yield _leg(tap, FROM_BROKER, left[tap][is_heard], LAST)
        yield _leg(tap, OTHERS, left[tap][is_other], LAST)
    for here in taps:
        for there in taps:
            name = here if here == there else f"{here} → {there}"
            if len(came[here]) and len(left[there]):
                yield _through(name, pairs(came[here], left[there]))


def _firsts(rows: Longs) -> Longs:
    """Without what is sent again, unless the first sending was not captured."""
    again = (rows[:, ABOUT] & IS_AGAIN) > 0
    if not again.any():
        return rows
    first = rows[~again]
    seen = _keys(first[:, KEY], first[:, WHO])
    return rows[~again | ~np.isin(_keys(rows[:, KEY], rows[:, WHO]), seen)]


def _keys(key: Longs, who: Longs) -> Longs:
    """One number for a message and a connection."""
    return ((key.view(np.uint64) * _GOLDEN) ^ who.view(np.uint64)).view(np.int64)


def pairs(came: Longs, left: Longs) -> _Pairs:
    """Every leaving that counts, with the coming that it answers."""
    came, left = came[(came[:, ABOUT] & IS_KNOWN) > 0], left[(left[:, ABOUT] & IS_KNOWN) > 0]
    came = came[np.lexsort((came[:, FIRST], came[:, KEY]))]
    left = left[np.lexsort((left[:, LAST], left[:, WHO], left[:, KEY]))]
    keys, start, alike = np.unique(came[:, KEY], return_index=True, return_counts=True)
    place = np.minimum(np.searchsorted(keys, left[:, KEY]), max(keys.size - 1, 0))
    is_seen = keys[place] == left[:, KEY] if keys.size else np.zeros(len(left), dtype=np.bool_)
    rank, many = _ranks(_keys(left[:, KEY], left[:, WHO]))
    is_plain = is_seen & (many == alike[place]) if keys.size else is_seen
    answered = came[start[place[is_plain]] + rank[is_plain]] if keys.size else came[:0]
    is_counted = (answered[:, ABOUT] & IS_COUNTED) > 0
    return _Pairs(
        (left[is_plain][:, LAST] - answered[:, FIRST])[is_counted],
        int(((left[~is_seen][:, ABOUT] & IS_COUNTED) > 0).sum()),
        int(((left[is_seen & ~is_plain][:, ABOUT] & IS_COUNTED) > 0).sum()),
    )


def _ranks(keys: Longs) -> tuple[Longs, Longs]:
    """The place of each row among those with its key, which lie together, and how many there are."""
    if not keys.size:
        return keys, keys
    begins = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    sizes = np.diff(np.append(begins, keys.size))
    return np.arange(keys.size) - np.repeat(begins, sizes), np.repeat(sizes, sizes)


def _leg(tap: str, leg: str, rows: Longs, column: int) -> dict[str, Any]:
    return {
        "tap": tap,
        "leg": leg,
        "messages": len(rows),
        "payload_bytes": int((rows[:, ABOUT] >> 8).sum()),
        "first_ns": int(rows[:, column].min()) if len(rows) else None,
        "last_ns": int(rows[:, column].max()) if len(rows) else None,
    }


def _through(tap: str, found: _Pairs) -> dict[str, Any]:
    tally = Tally()
    tally.add(found.latency_ns, resolution_ns=np.zeros_like(found.latency_ns))
    moments, buckets = tally.moments(), tally.buckets()
    names = ("n", "sum_ns", "sum_of_squares_ns2", "min_ns", "max_ns", "negative_count")
    return {
        "tap": tap,
        "leg": THROUGH_BROKER,
        "messages": tally.n,
        "unmatched": found.unmatched,
        "ambiguous": found.ambiguous,
        **{name: moments[name] if tally.n or name in ("n", "negative_count") else None for name in names},
        "buckets": [dict(zip(buckets, values, strict=True)) for values in zip(*buckets.values(), strict=True)],
    }
