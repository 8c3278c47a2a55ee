"""Run directories written as the lab writes them: a manifest by sections, raw files through PartWriter."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from brokerlab.record.directory import RunDirectory, StudyDirectory
from brokerlab.record.manifest import Manifest
from brokerlab.record.parts import PartWriter
from brokerlab.record.schemas import RAW_SCHEMAS

MS = 1_000_000
S = 1_000_000_000
PHASES = {  # seconds since the start of the run
    "connect": (0.0, 0.5),
    "subscribe": (0.5, 1.0),
    "warmup": (1.0, 2.0),
    "measure": (2.0, 4.0),
    "drain": (4.0, 5.0),
    "teardown": (5.0, 5.5),
}
DEFAULTS: dict[str, dict[str, Any]] = {
    "publications": {
        "topic": "t/0",
        "qos": 0,
        "retain": False,
        "payload_bytes": 64,
        "acked_ns": None,
        "reason_code": None,
    },
    "deliveries": {"qos": 0, "dup": False, "retain": False, "payload_bytes": 64, "resolution_ns": 0},
    "sessions": {
        "client": "c",
        "node": "subscribers/0",
        "latency_ns": None,
        "granted_qos": None,
        "reason_code": None,
    },
    "resources": {"read_bytes": None, "written_bytes": None, "threads": None, "open_files": None},
    "counters": {},
    "interfaces": {"tx_bytes": 0, "tx_packets": 0, "tx_dropped": 0},
}


@dataclass
class RunBuilder:
    """A run to be; every attribute has the value of a small valid run without messages."""

    cell: str = "broker-amqtt.qos-0"
    repetition: int = 1
    order: int = 1
    qos: int = 0
    broker: str = "amqtt"
    publishers: Mapping[int, str] = field(default_factory=lambda: {0: "t/0"})
    subscribers: Mapping[int, tuple[str, int | None]] = field(default_factory=lambda: {0: ("t/#", 0)})
    verdict: dict[str, Any] | None = field(default_factory=lambda: {"value": "valid", "reasons": []})
    phases: Mapping[str, tuple[float, float]] = field(default_factory=lambda: PHASES)
    counters: Sequence[dict[str, Any]] = ()
    more: Mapping[str, Any] = field(default_factory=dict)  # further sections of the manifest
    topics: Mapping[str, Any] = field(default_factory=lambda: {"publish": "t/{publisher}", "subscribe": "t/#"})
    of_subscribers: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)  # more of their entries
    without: Sequence[str] = ()  # sections of the manifest that are not written
    folder: str | None = None  # name of the directory, if it is not the repetition

    def write(self, results: StudyDirectory, **raw: Mapping[str, Sequence[dict[str, Any]]]) -> RunDirectory:
        """`deliveries={"subscribers-0": [rows]}` and so on: rows by worker."""
        run = results.run(f"{self.cell}/{self.folder or self.repetition}")
        run.path.mkdir(parents=True)
        for kind, workers in raw.items():
            for worker, rows in workers.items():
                write_rows(run, kind, worker, rows)
        manifest = Manifest(run.manifest_path)
        for section, content in self.sections().items():
            if section not in self.without:
                manifest.add(section, content)
        return run

    def sections(self) -> dict[str, Any]:
        sections = {
            "run": {
                "id": f"{self.cell}/{self.repetition}",
                "study": "tiny",
                "cell": self.cell,
                "repetition": self.repetition,
                "order": self.order,
                "seed": 7,
                "levels": {"broker": self.broker, "qos": self.qos},
            },
            "workload": {
                "publishers": len(self.publishers),
                "subscribers": len(self.subscribers),
                "payload_bytes": 64,
                "qos": self.qos,
                "protocol": "3.1.1",
                "schedule": {"arrivals": "constant", "rate_per_s": 100.0, "window": 500},
                "topics": dict(self.topics),
            },
            "guards": {"generator_cpu_percent": 70.0, "schedule_lag_p99_ms": 5.0},
            "machine": {"host": "here", "cores": 2, "cpu_model": "a core", "kernel": "6.1", "python": "3.11"},
            "versions": {"brokerlab": "0.1.0"},
            "broker": {
                "name": self.broker,
                "driver": self.broker,
                "version": "1.2.3",
                "preset": "stock",
                "counters": list(self.counters),
            },
            "clock": {"name": "CLOCK_MONOTONIC", "mono_ns": 0, "wall_ns": 1_700_000_000 * S},
            "proof": {"publications": 1, "seconds": 0.1},
            "clients": {
                "publishers": [{"publisher": number, "topic": topic} for number, topic in self.publishers.items()],
                "subscribers": [
                    {"subscriber": number, "filter": topic_filter, "granted_qos": granted}
                    | dict(self.of_subscribers.get(number, {}))
                    for number, (topic_filter, granted) in self.subscribers.items()
                ],
            },
            "phases": [
                {"name": name, "start_ns": round(start * S), "end_ns": round(end * S)}
                for name, (start, end) in self.phases.items()
            ],
            "meter": {
                "workers": [
                    {"node": "publishers/0", "cpu_percent": 10.0},
                    {"node": "subscribers/0", "cpu_percent": 20.0},
                ],
                "schedule_lag_ms": {"p50": 0.1, "p99": 0.4, "max": 1.0},
                "window": None,
            },
            **self.more,
        }
        return sections if self.verdict is None else {**sections, "verdict": self.verdict}


def write_rows(
    run: RunDirectory, kind: str, worker: str, rows: Sequence[dict[str, Any]], *, rows_per_file: int = 4_000_000
) -> None:
    """Writes the rows one by one, so that a file ends exactly after `rows_per_file` of them."""
    schema = RAW_SCHEMAS[kind]
    writer = PartWriter(run.raw(kind), worker, schema, rows_per_file=rows_per_file)
    for row in rows:
        writer.write(pa.RecordBatch.from_pylist([{**DEFAULTS[kind], **row}], schema=schema))
    writer.close()


def publication(
    seq: int, intended_ms: float, *, publisher: int = 0, acked: bool = False, **more: Any
) -> dict[str, Any]:
    """Sent 0.1 ms after it was due, acknowledged 1 ms after that if at all."""
    intended_ns = round(intended_ms * MS)
    return {
        "publisher": publisher,
        "seq": seq,
        "intended_ns": intended_ns,
        "sent_ns": intended_ns + MS // 10,
        "acked_ns": intended_ns + MS + MS // 10 if acked else None,
        **more,
    }


def arrival(of: dict[str, Any], after_ms: float, *, subscriber: int = 0, **more: Any) -> dict[str, Any]:
    """An arrival of a publication, so long after it was due."""
    return {
        "subscriber": subscriber,
        "publisher": of["publisher"],
        "seq": of["seq"],
        "intended_ns": of["intended_ns"],
        "received_ns": of["intended_ns"] + round(after_ms * MS),
        **more,
    }


def new_study(path: Path) -> StudyDirectory:
    (path / "runs").mkdir(parents=True)
    return StudyDirectory(path)
