"""Long packets pass: their rows are those of the whole packet, and nothing of their payload is kept."""

import numpy as np
import pytest

from brokerlab.load import wire
from brokerlab.load.packets import Publish
from brokerlab.load.passing import LONG_BYTES, passing_of
from brokerlab.load.properties import USER_PROPERTY

pytestmark = pytest.mark.unit

IDENTITY = (7).to_bytes(8, "little") + (3).to_bytes(4, "little") + (9).to_bytes(4, "little")


def message(size: int, qos: int, number: int) -> Publish:
    payload = (IDENTITY + bytes(size))[:size]
    return Publish("plant/1", payload, qos, number if qos else None, properties=((USER_PROPERTY, ("a", "b" * 200)),))


def rows_of(stream: bytes, *, step: int, level: int) -> tuple[list[list[int]], bytes, int]:
    """Rows, acknowledgements and the most bytes that were kept, as a subscriber reads in steps."""
    held, unread, passing, most = np.zeros(wire.HELD_BYTES, dtype=np.uint8), b"", None, 0
    found, answers = [], b""

    def walk(data: bytes, cut_bytes: int = 0) -> int:
        nonlocal answers
        rows, acks = np.zeros((9, 5), dtype=np.int64), np.zeros(64, dtype=np.uint8)
        view = np.frombuffer(bytearray(data), dtype=np.uint8)
        at, row, used, _, why = wire.walk_deliveries(view, view.size, 0, level, rows, 0, held, acks)
        assert why == wire.NEED_MORE
        rows[:row, 3] += cut_bytes
        found.extend(rows[:row, :4].tolist())
        answers += acks[:used].tobytes()
        return at

    for begin in range(0, len(stream), step):
        data = unread + stream[begin : begin + step]
        if passing:
            data = data[passing.take(len(data)) :]
            if not passing.missing_bytes:
                walk(passing.short.tobytes(), passing.cut_bytes)
                passing = None
        data = data[walk(data) :]
        passing = passing or passing_of(np.frombuffer(data, dtype=np.uint8), level=level)
        unread = b"" if passing else data
        most = max(most, len(unread))
    assert (unread, passing) == (b"", None)
    return found, answers, most


@pytest.mark.parametrize("level", [4, 5])
@pytest.mark.parametrize("qos", [0, 1, 2])
@pytest.mark.parametrize("step", [70_001, 300_000, 5_000_000])
def test_a_long_packet_gives_the_row_of_the_whole(level, qos, step):
    sizes = [20, 2_000_000, 100_000, LONG_BYTES, 3_000_000, 64]
    stream = b"".join(message(size, qos, number + 1).encode(level) for number, size in enumerate(sizes))

    rows, answers, most = rows_of(stream, step=step, level=level)

    assert rows == [[3, 9, 7, size] for size in sizes]
    assert (rows, answers) == rows_of(stream, step=len(stream), level=level)[:2]
    assert most < LONG_BYTES + step
