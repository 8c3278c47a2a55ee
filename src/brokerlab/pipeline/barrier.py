"""Tasks that start together on a Spark cluster, or not at all: one barrier stage, one action, made once.

Facts that this stands on (Spark 4): more tasks than places fail after a few checks; when one fails, all are killed;
the stage is the job's last one, so it is not made again; a frame with effects is written, never counted or shown.
"""

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import BarrierTaskContext
from pyspark.sql import SparkSession

from brokerlab.errors import RunError, UserError
from brokerlab.pipeline.schemas import arrow_schema
from brokerlab.pipeline.schemas.kinds import INT, LONG, TEXT, schema
from brokerlab.pipeline.session import is_sparks
from brokerlab.pipeline.sources import write

Gather = Callable[[str], Sequence[str]]
Task = Callable[[bytes, Gather], str]

# One row per task; `attempt` is Spark's own number of it, unique within a session.
SAID = schema(task=INT, attempt=LONG, said=TEXT)

_TOO_MANY = ("SPARK-24819", "BARRIER", "more slots")


def run_together(spark: SparkSession, task: Task, payloads: Sequence[bytes], *, shared: Path) -> list[str]:
    """What each task said, in the order of its payloads; `shared` is a folder that this and all machines see."""
    said = arrow_schema(SAID)

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = BarrierTaskContext.get()
        for batch in batches:
            for number in batch.column("id").to_pylist():
                text = task(payloads[number], context.allGather)
                row = {"task": number, "attempt": context.taskAttemptId(), "said": text}
                yield pa.RecordBatch.from_pylist([row], schema=said)

    each = spark.range(len(payloads), numPartitions=len(payloads))
    with tempfile.TemporaryDirectory(prefix=".together-", dir=shared) as folder:
        path = Path(folder) / "said"
        try:
            write(each.mapInArrow(work, SAID, barrier=True), path)
        except Exception as problem:
            if not is_sparks(problem):
                raise
            raise _explained(problem, len(payloads)) from problem
        rows = pa.concat_tables([pq.ParquetFile(file).read() for file in sorted(path.glob("*.parquet"))]).to_pylist()
    return [row["said"] for row in sorted(rows, key=lambda row: row["task"])]


def _explained(problem: Exception, tasks: int) -> Exception:
    text = str(problem)
    if any(mark in text for mark in _TOO_MANY) and "slots" in text:
        return UserError(
            f"the load needs {tasks} places at once, and Spark has fewer",
            hint="give it more cores: local[4], or more workers",
        )
    reasons = [line.strip() for line in text.splitlines() if "Error: " in line]
    return RunError(f"a task of the load failed: {reasons[-1] if reasons else text.splitlines()[0]}")
