"""The Python data source `pcap`: parts of capture files to TCP segments, by connection.

    spark.dataSource.register(PcapSource)
    spark.read.format("pcap").option("ports", "1883").load("broker.pcap")

Options: `path`, or `files` with a JSON list of {"path", "ports"}; `ports` of the broker, 1883 unless told otherwise;
`split_bytes`, about the size of a part. A file that cannot be read is a row that says why.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from brokerlab.errors import UserError
from brokerlab.pipeline.capture.compiled import Longs
from brokerlab.pipeline.capture.container import (
    AT,
    CUT_OFF,
    DAMAGED,
    LINK,
    SPLIT_BYTES,
    WHOLE,
    Part,
    Records,
    open_capture,
    parts_of,
    record_portions,
)
from brokerlab.pipeline.capture.frames import LINKS, TALLIES, SegmentReading
from brokerlab.pipeline.schemas import arrow_schema
from brokerlab.pipeline.schemas.captured import CAPTURED
from brokerlab.study.nearest import listed, nearest

MQTT_PORT = 1883
_OPTIONS = ("path", "files", "ports", "split_bytes")
_SEGMENTS_A_ROW = 1 << 17  # 4 MiB
_ROWS_A_PART = 1 << 20
_LINK_NAMES = {
    0: "loopback (BSD)", 1: "Ethernet", 12: "raw IP", 14: "raw IP", 101: "raw IP", 108: "loopback (OpenBSD)",
    113: "Linux cooked", 228: "IPv4", 229: "IPv6", 276: "Linux cooked v2",
}  # fmt: skip
_SCHEMA = arrow_schema(CAPTURED)
_WHY = {CUT_OFF: "the file ends within a record", DAMAGED: "what should be a record is none"}


@dataclass(frozen=True, slots=True)
class CaptureFile:
    path: str
    ports: tuple[int, ...] = (MQTT_PORT,)


class CapturePartition(InputPartition):
    """A part of a file, or why there is none."""

    def __init__(self, file: CaptureFile, part: Part | None, problem: str | None = None) -> None:
        super().__init__(None)
        self.file, self.part, self.problem = file, part, problem


class PcapSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "pcap"

    def schema(self) -> T.StructType:
        return CAPTURED

    def reader(self, schema: T.StructType) -> "PcapReader":  # noqa: ARG002 - what is asked for is what there is
        return PcapReader(files_of(self.options), split_bytes_of(self.options))


class PcapReader(DataSourceReader):
    def __init__(self, files: Sequence[CaptureFile], split_bytes: int) -> None:
        self._files, self._split_bytes = files, split_bytes

    def partitions(self) -> Sequence[InputPartition]:
        return [each for file in self._files for each in _partitions_of(file, self._split_bytes)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, CapturePartition)
        yield from read_part(partition.file, partition.part, partition.problem)


def files_of(options: Mapping[str, str]) -> list[CaptureFile]:
    """The files that the options name; an unknown option or a bad value is refused."""
    for name in options:
        if name not in _OPTIONS:
            meant = nearest(name, _OPTIONS)
            question = f"did you mean {meant!r}? " if meant else ""
            raise UserError(f"pcap: there is no option {name!r}", hint=f"{question}they are {listed(_OPTIONS)}")
    ports = read_ports(options.get("ports", str(MQTT_PORT)))
    if "files" in options:
        named = json.loads(options["files"])
        return [CaptureFile(each["path"], tuple(each.get("ports") or ports)) for each in named]
    if "path" not in options:
        raise UserError("pcap: which file? the option `path` says it")
    return [CaptureFile(options["path"].removeprefix("file:"), ports)]


def read_ports(text: str) -> tuple[int, ...]:
    ports = [int(each) if each.strip().isdecimal() else 0 for each in text.split(",")]
    if not all(0 < port < 65_536 for port in ports):
        raise UserError(f"pcap: {text!r} is no list of ports", hint="numbers from 1 to 65535 with commas between them")
    return tuple(ports)


def split_bytes_of(options: Mapping[str, str]) -> int:
    text = options.get("split_bytes", str(SPLIT_BYTES))
    if not text.isdecimal() or int(text) < 1:
        raise UserError(f"pcap: split_bytes is {text!r}, which is no number of bytes")
    return int(text)


def _partitions_of(file: CaptureFile, split_bytes: int) -> list[CapturePartition]:
    try:
        return [CapturePartition(file, part) for part in parts_of(file.path, split_bytes=split_bytes)]
    except UserError as problem:
        return [CapturePartition(file, None, problem.message)]


def read_part(file: CaptureFile, part: Part | None, problem: str | None) -> Iterator[pa.RecordBatch]:
    """A row about the part, then its connections' segments."""
    if part is None:
        about = told_of_unreadable(file.path, problem)
        yield _rows([{"path": file.path, "number": 0, "part": about}])
        return
    data, seen = open_capture(file.path), SeenRecords(part)
    reading = SegmentReading(data, file.ports)
    for records in record_portions(data, part):
        seen.add(records)
        reading.add(records.rows)
    segments = reading.take()
    seen.count(segments.tallies)
    yield _rows([{"path": file.path, "number": part.number * _ROWS_A_PART, "part": seen.told()}])
    for (client, broker), start, end in zip(segments.names, segments.starts, segments.starts[1:], strict=False):
        for number, at in enumerate(range(start, end, _SEGMENTS_A_ROW)):
            packed = segments.rows[at : min(at + _SEGMENTS_A_ROW, end)].tobytes()
            row = {"number": part.number * _ROWS_A_PART + number, "client": client, "broker": broker}
            yield _rows([{"path": file.path, "segments": packed, **row}])


def told_of_unreadable(path: str, problem: str | None) -> dict[str, Any]:
    """Of schemas.captured.PART, of a file that is no capture or is not there."""
    size = Path(path).stat().st_size if Path(path).exists() else 0
    return {"unread_bytes": size, "problem": problem}


class SeenRecords:
    """What can be told of a part of a file when all its records have gone by."""

    def __init__(self, part: Part) -> None:
        self._part, self._links = part, set[int]()
        self._first_ns: int | None = None
        self._last_ns: int | None = None
        self._unread_bytes, self._ended = 0, WHOLE
        self._tallies = np.zeros(len(TALLIES), dtype=np.int64)

    def add(self, records: Records) -> None:
        self._unread_bytes, self._ended = records.unread_bytes, records.ended
        if not len(records.rows):
            return
        at_ns, links = records.rows[:, AT], records.rows[:, LINK]
        first_ns, last_ns = int(at_ns.min()), int(at_ns.max())
        self._first_ns = first_ns if self._first_ns is None else min(self._first_ns, first_ns)
        self._last_ns = last_ns if self._last_ns is None else max(self._last_ns, last_ns)
        is_one = int(links.min()) == int(links.max())  # as nearly always: nothing needs to be sorted
        self._links.update((links[:1] if is_one else np.unique(links)).tolist())

    def count(self, tallies: Longs) -> None:
        self._tallies += tallies

    def told(self) -> dict[str, Any]:
        """Of schemas.captured.PART."""
        links = sorted(self._links or {each.link for each in self._part.interfaces})
        why = f"{_WHY[self._ended]}, {self._unread_bytes} bytes before its end" if self._ended else None
        return {
            **dict(zip(TALLIES, self._tallies.tolist(), strict=True)),
            "first_ns": self._first_ns,
            "last_ns": self._last_ns,
            "links": [_LINK_NAMES[link] if link in LINKS else f"link type {link}, which is not read" for link in links],
            "unread_bytes": self._unread_bytes,
            "problem": why,
        }


def _rows(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=_SCHEMA)
