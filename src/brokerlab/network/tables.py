"""Claims as numbers of the carrying loop, and what it did as counts again."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from brokerlab.network import columns as c
from brokerlab.study.topology import Direction

Table = NDArray[np.int64]


def table_bytes(directions: int) -> int:
    """Of the shared memory that holds both tables."""
    return directions * (c.CLAIM_COLUMNS + c.DONE_COLUMNS) * 8


def tables_in(memory: memoryview, directions: int) -> tuple[Table, Table]:
    """The claims and what was done, one row for each direction, in memory that others see too."""
    cells = np.frombuffer(memory, dtype=np.int64)
    claims = cells[: directions * c.CLAIM_COLUMNS].reshape(directions, c.CLAIM_COLUMNS)
    return claims, cells[directions * c.CLAIM_COLUMNS :].reshape(directions, c.DONE_COLUMNS)


def write_claim(row: Table, direction: Direction, *, seed: int) -> None:
    """Puts one direction's claim into its row.

    Losses are a chain: after a lost frame the next is lost with p + c (1 - p), after one that passed with p (1 - c),
    which loses the share p of all and correlates neighbours by c.
    """
    share, correlation = direction.loss_percent / 100, direction.correlation_percent / 100
    rate = direction.rate_bits_per_s
    row[c.DELAY_NS] = round(direction.delay_ms * 1e6)
    row[c.JITTER_NS] = round(direction.jitter_ms * 1e6)
    row[c.LOSS] = round(share * c.SCALE)
    row[c.LOSS_AFTER_LOSS] = round((share + correlation * (1 - share)) * c.SCALE)
    row[c.LOSS_AFTER_PASS] = round(share * (1 - correlation) * c.SCALE)
    row[c.DUPLICATE] = round(direction.duplicate_percent / 100 * c.SCALE)
    row[c.REORDER] = round(direction.reorder_percent / 100 * c.SCALE)
    row[c.PS_PER_BYTE] = 0 if rate is None else round(8e12 / rate)
    row[c.QUEUE_BYTES] = direction.longest_queue_bytes or 0
    row[c.SEED] = seed


@dataclass(frozen=True, slots=True)
class Done:
    """What the loop did with the frames of one direction since it began."""

    frames_in: int
    bytes_in: int
    frames_out: int
    bytes_out: int
    lost: int
    duplicated: int
    reordered: int
    queue_drops: int
    no_room: int  # times that no memory was left to keep a frame
    cut_drops: int
    write_failed: int
    late: int  # frames that went out more than 0.3 ms after they were due
    late_mean_ms: float | None
    late_max_ms: float


def read_done(row: Table) -> Done:
    written = int(row[c.FRAMES_OUT] + row[c.WRITE_FAILED])
    return Done(
        frames_in=int(row[c.FRAMES_IN]),
        bytes_in=int(row[c.BYTES_IN]),
        frames_out=int(row[c.FRAMES_OUT]),
        bytes_out=int(row[c.BYTES_OUT]),
        lost=int(row[c.LOST]),
        duplicated=int(row[c.DUPLICATED]),
        reordered=int(row[c.REORDERED]),
        queue_drops=int(row[c.QUEUE_DROPS]),
        no_room=int(row[c.NO_ROOM]),
        cut_drops=int(row[c.CUT_DROPS]),
        write_failed=int(row[c.WRITE_FAILED]),
        late=int(row[c.LATE]),
        late_mean_ms=float(row[c.LATE_SUM_NS]) / written / 1e6 if written else None,
        late_max_ms=float(row[c.LATE_MAX_NS]) / 1e6,
    )
