"""Streams rows of one kind to complete Parquet files of bounded size, in a thread of its own.

Arrow lets go of Python's lock while it encodes and compresses, so the thread that measures goes on; who has a batch
still to make of what it measured has it made here too.
A file is closed after `ROWS_PER_FILE` rows or at `close()`: memory stays flat, and a crash
costs the last file at most.
"""

import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from brokerlab.errors import UserError

ROWS_PER_FILE = 4_000_000
_DONE = None
Batch: TypeAlias = pa.RecordBatch | Callable[[], pa.RecordBatch]
_QUEUED = 24  # batches; some 80 MB

# Times and sequence numbers grow slowly: differences pack to a byte or two where plain values take eight.
_DELTA_COLUMNS = {"seq", "intended_ns", "sent_ns", "acked_ns", "received_ns", "resolution_ns", "at_ns", "cpu_ns"}


def _made(batch: Batch) -> pa.RecordBatch:
    return batch() if callable(batch) else batch


class PartWriter:
    """Appends batches to `<folder>/<name>-<number>.parquet`."""

    def __init__(self, folder: Path, name: str, schema: pa.Schema, *, rows_per_file: int = ROWS_PER_FILE) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._folder, self._name, self._schema = folder, name, schema
        self._rows_per_file = rows_per_file
        self._number = 0
        self._rows = 0
        self._writer: pq.ParquetWriter | None = None
        self._failure: Exception | None = None
        self._queue: queue.Queue[tuple[Callable[[Batch], None], Batch] | None] = queue.Queue(maxsize=_QUEUED)
        self._thread = threading.Thread(target=self._drain, name=f"write-{name}", daemon=True)
        self._thread.start()

    def write(self, batch: Batch) -> None:
        """Queues a batch, or what makes it; waits only while many batches are queued already."""
        self._raise_failure()
        self._queue.put((self._append, batch))

    def rehearse(self, batch: Batch) -> None:
        """Has a batch encoded that nobody keeps: the first takes ten times as long as the others."""
        self._queue.put((self._encode, batch))

    def close(self) -> None:
        """Returns when everything is on disk under its final name."""
        self._queue.put(_DONE)
        self._thread.join()
        self._raise_failure()

    def _raise_failure(self) -> None:
        if isinstance(self._failure, OSError):
            place, why = self._folder / self._name, self._failure.strerror or str(self._failure)
            raise UserError(
                f"{place} cannot be written: {why}", hint="make room, or take another --out"
            ) from self._failure
        if self._failure is not None:
            raise RuntimeError(f"writing {self._folder / self._name} failed") from self._failure

    def _drain(self) -> None:
        while (asked := self._queue.get()) is not _DONE:
            self._guarded(*asked)
        self._guarded(self._finish)

    def _guarded(self, action: Callable[..., None], *arguments: Batch) -> None:
        """Does it, unless something failed before: the queue is emptied all the same, so nobody waits in put()."""
        if self._failure is not None:
            return
        try:
            action(*arguments)
        except Exception as problem:  # noqa: BLE001 - handed to the owner, who raises it at the next call
            self._failure = problem

    def _encode(self, made: Batch) -> None:
        with self._open(pa.MockOutputStream()) as writer:
            writer.write_batch(_made(made))

    def _append(self, asked: Batch) -> None:
        batch = _made(asked)
        if self._writer is None:
            self._writer = self._open(self._path(".part"))
        self._writer.write_batch(batch)
        self._rows += batch.num_rows
        if self._rows >= self._rows_per_file:
            self._finish()

    def _open(self, where: Path | pa.NativeFile) -> pq.ParquetWriter:
        delta = [name for name in self._schema.names if name in _DELTA_COLUMNS]
        return pq.ParquetWriter(
            where,
            self._schema,
            compression="zstd",
            use_dictionary=[name for name in self._schema.names if name not in delta],
            column_encoding=dict.fromkeys(delta, "DELTA_BINARY_PACKED"),
        )

    def _finish(self) -> None:
        if self._writer is None:
            return
        self._writer.close()
        self._path(".part").rename(self._path(""))
        self._writer, self._rows = None, 0
        self._number += 1

    def _path(self, suffix: str) -> Path:
        return self._folder / f"{self._name}-{self._number:05d}.parquet{suffix}"
