"""What became of the latency probe's messages: a latency has only those that came, so the manifest counts them all."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from brokerlab.load.spec import Go, Stopped
from brokerlab.record.directory import RunDirectory
from brokerlab.record.schemas import RAW_SCHEMAS


def probes_section(run: RunDirectory, order: Go, stopped: Stopped) -> dict[str, int]:
    """For the manifest: of those due in the measure phase how many were published, came and were lost.

    `unsent` are those of the whole schedule that were due and not handed over.
    """
    sent, heard = (_rows(run, kind, order) for kind in ("probe_publications", "probe_deliveries"))
    published = set(sent.filter(pc.is_valid(sent["sent_ns"]))["seq"].to_pylist())
    came = published.intersection(heard["seq"].to_pylist())
    return {
        "published": len(published),
        "came": len(came),
        "lost": len(published) - len(came),
        "unsent": stopped.unsent,
    }


def _rows(run: RunDirectory, kind: str, order: Go) -> pa.Table:
    """Those that are intended in the measure phase."""
    files: Sequence[str] = [str(path) for path in run.files(kind)]
    if not files:
        return RAW_SCHEMAS[kind].empty_table()
    intended = ds.field("intended_ns")
    during = (intended >= order.measure_ns) & (intended < order.end_ns)
    return ds.dataset(files, schema=RAW_SCHEMAS[kind], format="parquet").to_table(filter=during)
