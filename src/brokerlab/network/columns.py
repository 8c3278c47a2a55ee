"""Columns of the two tables that the lab and the carrying loop share (tables.py, carrying.py)."""

# Claims, one row for each direction.
DELAY_NS, JITTER_NS, LOSS, LOSS_AFTER_LOSS, LOSS_AFTER_PASS, DUPLICATE, REORDER = range(7)
PS_PER_BYTE, QUEUE_BYTES, CUT, SEED = range(7, 11)
CLAIM_COLUMNS = 11
SCALE = 1 << 32  # a share of 1 in the columns of shares

# What was done, one row for each direction.
FRAMES_IN, BYTES_IN, FRAMES_OUT, BYTES_OUT, LOST, DUPLICATED, REORDERED = range(7)
QUEUE_DROPS, NO_ROOM, CUT_DROPS, WRITE_FAILED, LATE_SUM_NS, LATE_MAX_NS, LATE = range(7, 14)
DONE_COLUMNS = 14
