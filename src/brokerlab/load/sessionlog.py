"""What happened to the sessions of a worker's clients, on its way to the run directory.

Tens of thousands of connections leave several rows each, so rows are columns from the start (some 50 bytes each)
and are passed on by the thousand.
"""

from array import array
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from brokerlab.load.alarm import now_ns
from brokerlab.load.spec import Client
from brokerlab.record.schemas import SESSIONS

_ROWS = 4096
_NONE = -1  # no latency is negative, no QoS and no reason code either


class SessionLog:
    """Gathers rows of record.schemas.SESSIONS; without a writer they stay here."""

    def __init__(self, node: str, write: Callable[[pa.RecordBatch], object] | None = None) -> None:
        self._node, self._write = node, write
        self.agreed: set[str] = set()  # what the handshakes settled, each noted once
        self._fresh()

    def _fresh(self) -> None:
        self._clients: list[str] = []
        self._events: list[str] = []
        self._at_ns, self._latency_ns = array("q"), array("q")
        self._qos, self._code = array("h"), array("h")

    def add(
        self, client: Client, event: str, *,
        began_ns: int | None = None, at_ns: int | None = None, qos: int | None = None, code: int | None = None,
    ) -> None:  # fmt: skip
        """Notes an event, now unless `at_ns` says when; `began_ns` is when the client asked for it."""
        if at_ns is None:
            at_ns = now_ns()
        self._clients.append(client.name)
        self._events.append(event)
        self._at_ns.append(at_ns)
        self._latency_ns.append(_NONE if began_ns is None else max(0, at_ns - began_ns))
        self._qos.append(_NONE if qos is None else qos)
        self._code.append(_NONE if code is None else code)
        if self._write is not None and len(self._events) >= _ROWS:
            self.flush()

    def flush(self) -> None:
        """Passes on what is here."""
        if self._write is not None and self._events:
            self._write(self.batch())
            self._fresh()

    def batch(self) -> pa.RecordBatch:
        """The rows that are here."""
        columns = [
            pa.array(self._clients, pa.string()),
            pa.array([self._node] * len(self._events), pa.string()),
            pa.array(self._events, pa.string()),
            pa.array(np.frombuffer(self._at_ns, dtype=np.int64)),
            *(_nullable(column) for column in (self._latency_ns, self._qos, self._code)),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=SESSIONS)


def _nullable(column: "array[int]") -> pa.Array:
    values = np.frombuffer(column, dtype=np.int64 if column.typecode == "q" else np.int16)
    return pa.array(values, mask=values == _NONE)
