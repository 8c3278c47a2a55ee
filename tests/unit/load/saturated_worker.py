"""A worker with one subscriber of a saturating load, near its broker."""

from pathlib import Path

from brokerlab.load.spec import Client, Progress, WorkerSpec
from brokerlab.study.values import Arrivals, Schedule, Workload

COUNTS, PROGRESS = [0, 0, 0, 8192], Progress((0,), (1,), (2,), 3)
SATURATED = Workload(payload_bytes=64, schedule=Schedule(Arrivals.SATURATE, window=8192))
ALONE = WorkerSpec(
    node="subscribers/0", index=1, host="127.0.0.1", port=1883, clients=(Client(0, "s0", "t"),), workload=SATURATED,
    fan_out=1, seed=1, run=Path("unused"),
)  # fmt: skip
