"""What bridges of ours carried in a run: what each had counted before the load, and what it has counted after it."""

import time
from dataclasses import asdict

import pyarrow.compute as pc
import pyarrow.parquet as pq

from brokerlab.bridge.joint import BACK, ROUTE
from brokerlab.lab.ensemble import Nodes
from brokerlab.lab.joints import counts_of
from brokerlab.record.directory import RunDirectory

_TOLD_S = 0.25  # bridges write their counters ten times a second
_SHOWN = ("received", "received_bytes", "published", "acknowledged", "dropped", "looped", "dead", "resent", "paused",
          "reconnected", "sessions_lost")  # fmt: skip

Counts = dict[str, dict[str, int]]


class Bridged:
    """Begins to count when it is made, after the proofs of the ensemble."""

    def __init__(self, nodes: Nodes) -> None:
        self._nodes = nodes
        self._before = self._told()

    def _told(self) -> dict[tuple[int, ...], Counts]:
        time.sleep(_TOLD_S)
        return {key: counts_of(joint) for key, joint in self._nodes.joints.items()}

    def section(self) -> list[dict[str, object]]:
        """For the manifest: a row for each bridge and way."""
        return [
            {
                "bridge": "-".join(map(str, key)),
                "from": span.ends[::step][0],
                "to": span.ends[::step][1],
                "publisher": span.publisher,
                "limits": asdict(self._nodes.setup.bridge_limits),
                **{name: told[name] - self._before.get(key, {}).get(route, {}).get(name, 0) for name in _SHOWN},
            }
            for key, counts in self._told().items()
            for span in (self._nodes.spans[key],)
            for route, step in ((ROUTE, 1), (BACK, -1))
            if (told := counts.get(route)) is not None
        ]


def payloads_section(run: RunDirectory) -> dict[str, int]:
    """For the manifest: what subscribers received after a transformer, which may have changed its size (X-13)."""
    messages = total_bytes = 0
    for path in sorted(run.raw("deliveries").glob("*.parquet")):
        for batch in pq.ParquetFile(path).iter_batches(columns=["payload_bytes"]):
            messages += batch.num_rows
            total_bytes += pc.sum(batch.column(0)).as_py() or 0
    return {"received": messages, "received_bytes": total_bytes}
