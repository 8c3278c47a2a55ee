"""A directory of results as brokerlab leaves it, made of invented but likely numbers, for the tests of the report."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import stats

from brokerlab.record.directory import StudyDirectory

CONTRACTS = ("at most once", "at least once", "exactly once")
MEDIAN_MS = {"mosquitto": 0.19, "nats": 0.2, "rumqttd": 0.31, "amqtt": 1.9}
VERSIONS = {"mosquitto": "2.0.11", "nats": "2.12.1", "rumqttd": "0.19.0", "amqtt": "0.11.3"}

LEVELS = pa.map_(pa.string(), pa.string())
_STRINGS = """run_id cell broker driver version verdict started_at arrivals kernel cpu_model brokerlab kind group
window contract node name note metric unit count why""".split()  # noqa: SIM905
_INTS = """repetition order qos payload_bytes publishers subscribers cores pipeline qos_asked qos_granted published
acknowledged never_acknowledged expected delivered lost acknowledged_lost duplicated duplicated_flagged
reordered unexpected n zero_count negative_count bucket low_ns high_ns invalid_runs""".split()  # noqa: SIM905
TYPES = {
    **dict.fromkeys(_STRINGS, pa.string()),
    **dict.fromkeys(_INTS, pa.int64()),
    "levels": LEVELS,
    "phases": pa.map_(pa.string(), pa.float64()),
    "reasons": pa.list_(pa.string()),
}
_COUNT = "name count measure_first measure_last broker_value our_value difference verdict why".split()  # noqa: SIM905
COUNTED = [
    dict(zip(_COUNT, values, strict=True))
    for values in (
        ("$SYS/broker/publish/messages/received", "received", 1011.0, 6011.0, 6011.0, 6011.0, 0.0, "equal", None),
        (
            *("$SYS/broker/clients/connected", "connections", 7.0, 7.0, 7.0, None, None),
            *("not comparable", "we have no count of our own"),
        ),
    )
]
COLUMNS = {
    "runs": "run_id cell repetition order broker driver version qos levels verdict reasons started_at phases "
    "payload_bytes publishers subscribers arrivals rate_per_s window schedule_lag_p99_ms generator_cpu_percent "
    "kernel cpu_model cores brokerlab pipeline",
    "delivery": "run_id cell qos_asked qos_granted contract published acknowledged never_acknowledged expected "
    "delivered lost acknowledged_lost duplicated duplicated_flagged reordered unexpected failure_percent verdict",
    "latency": "run_id cell kind group n mean_ms sd_ms min_ms p50_ms p90_ms p95_ms p99_ms p99_9_ms p99_99_ms max_ms "
    "resolution_mean_ms resolution_max_ms zero_count negative_count",
    "histogram": "run_id cell kind group bucket low_ns high_ns n",
    "counters": "run_id cell node name count measure_first measure_last broker_value our_value difference "
    "verdict why note",
    "cells": "cell broker qos levels metric unit n invalid_runs mean low high sd min max confidence_percent",
}
UNITS = {"latency": "ms", "failure_percent": "%", "per_s": "1/s", "cpu_percent": "%", "mib": "MiB", "us_per": "µs"}


@dataclass
class Example:
    """Which results to invent."""

    brokers: tuple[str, ...] = ("amqtt", "mosquitto", "nats", "rumqttd")
    levels: tuple[dict[str, str], ...] = ({"qos": "0"}, {"qos": "1"}, {"qos": "2"})
    repetitions: int = 3
    question: str = "Which broker keeps p99 lowest at 1,000 messages per second on two cores?"
    rank_by: str = "latency.p99"
    messages: int = 4000
    medians_ms: dict[str, float] = field(default_factory=lambda: dict(MEDIAN_MS))
    invalid: dict[str, list[str]] = field(default_factory=dict)  # run id -> reasons
    broken: frozenset[str] = frozenset()  # run ids that lost acknowledged messages
    has_latency: bool = True
    has_manifests: bool = True

    def cells(self) -> Iterable[tuple[str, str, dict[str, str]]]:
        for levels in self.levels:
            for broker in self.brokers:
                rest = ".".join(f"{name}-{value}" for name, value in levels.items())
                yield f"broker-{broker}.{rest}".rstrip("."), broker, {"broker": broker, **levels}


def write_example(folder: Path, example: Example) -> StudyDirectory:
    random = np.random.default_rng(7)
    tables: dict[str, list[dict]] = {name: [] for name in COLUMNS}
    order = 0
    for repetition in range(1, example.repetitions + 1):
        for cell, broker, levels in example.cells():
            order += 1
            _add_run(tables, example, _Run(cell, broker, levels, repetition, order), random)
    _add_cells(tables, example)
    results = StudyDirectory(folder)
    for name, rows in tables.items():
        write_table(results, name, rows)
    results.study.write_text(_study_text(example), encoding="utf-8")
    results.plan.write_text("{}\n", encoding="utf-8")
    if example.has_manifests:
        _write_manifests(results, tables["runs"])
    return results


def schema_of(name: str) -> pa.Schema:
    return pa.schema([(column, TYPES.get(column, pa.float64())) for column in COLUMNS[name].split()])


def empty_table(name: str) -> pa.Table:
    return schema_of(name).empty_table()


def write_table(results: StudyDirectory, name: str, rows: list[dict]) -> None:
    schema = schema_of(name)
    columns = {column: [row.get(column) for row in rows] for column in schema.names}
    for column in {"levels", "phases"} & set(columns):
        columns[column] = [list(value.items()) for value in columns[column]]
    results.table(name).mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns, schema=schema), results.table(name) / "part-00000.snappy.parquet")


@dataclass
class _Run:
    cell: str
    broker: str
    levels: dict[str, str]
    repetition: int
    order: int

    @property
    def id(self) -> str:
        return f"{self.cell}/{self.repetition}"

    @property
    def qos(self) -> int:
        return int(self.levels.get("qos", 0))


def _add_run(tables: dict[str, list[dict]], example: Example, run: _Run, random: np.random.Generator) -> None:
    reasons = example.invalid.get(run.id, [])
    started = 60 * 9 + run.order // 2
    tables["runs"].append(
        {"run_id": run.id, "cell": run.cell, "repetition": run.repetition, "order": run.order, "broker": run.broker}
        | {"driver": run.broker, "version": VERSIONS.get(run.broker, "1.0"), "qos": run.qos, "levels": run.levels}
        | {"verdict": "invalid" if reasons else "valid", "reasons": reasons}
        | {"started_at": f"2025-11-15T{started // 60:02d}:{started % 60:02d}:03+00:00"}
        | {"phases": {"warmup": 1.0, "measure": 5.0, "drain": 0.4}, "payload_bytes": 64, "publishers": 4}
        | {
            "subscribers": 2,
            "arrivals": "constant",
            "rate_per_s": 250.0,
            "schedule_lag_p99_ms": random.uniform(0.1, 0.3),
        }
        | {"generator_cpu_percent": random.uniform(9, 14), "kernel": "6.1.0-21-amd64", "cpu_model": "AMD EPYC 7B13"}
        | {"cores": 2, "brokerlab": "0.1.0", "pipeline": 1}
    )
    _add_ledger(tables, example, run)
    if example.has_latency:
        _add_latency(tables, example, run, random)
    if run.broker == "mosquitto":
        tables["counters"] += [
            {"run_id": run.id, "cell": run.cell, "node": "broker/0", "note": "", **said} for said in COUNTED
        ]


def _add_ledger(tables: dict[str, list[dict]], example: Example, run: _Run) -> None:
    published, subscribers = 6000, 2
    lost = 37 if run.id in example.broken else 0
    acknowledged = published if run.qos else None
    tables["delivery"].append(
        {"run_id": run.id, "cell": run.cell, "qos_asked": run.qos, "qos_granted": run.qos}
        | {"contract": CONTRACTS[run.qos], "published": published, "acknowledged": acknowledged}
        | {"never_acknowledged": 0 if run.qos else None, "expected": published * subscribers}
        | {"delivered": published * subscribers - lost, "lost": lost}
        | {"acknowledged_lost": lost if run.qos else None, "duplicated": 0, "duplicated_flagged": 0, "reordered": 0}
        | {"unexpected": 0, "failure_percent": 100 * lost / (published * subscribers)}
        | {"verdict": "broken" if lost and run.qos else "kept"}
    )


def _add_latency(tables: dict[str, list[dict]], example: Example, run: _Run, random: np.random.Generator) -> None:
    median = example.medians_ms.get(run.broker, 0.5) * (1 + 0.55 * run.qos) * random.normal(1, 0.04)
    body = median * random.lognormal(0, 0.28, example.messages)
    tail = random.random(example.messages) < 0.015
    sample_ms = np.where(tail, body * random.lognormal(1.4, 0.6, example.messages), body)
    ranks = {"p50": 50, "p90": 90, "p95": 95, "p99": 99, "p99_9": 99.9, "p99_99": 99.99}
    about = {"run_id": run.id, "cell": run.cell, "kind": "intended", "group": "all"}
    tables["latency"].append(
        about
        | {"n": example.messages, "mean_ms": sample_ms.mean(), "sd_ms": sample_ms.std(), "min_ms": sample_ms.min()}
        | {f"{name}_ms": float(np.percentile(sample_ms, rank)) for name, rank in ranks.items()}
        | {"max_ms": sample_ms.max(), "resolution_mean_ms": 0.031, "resolution_max_ms": 0.4}
        | {"zero_count": 0, "negative_count": 0}
    )
    buckets, counts = np.unique((sample_ms * 1e6).view(np.int64) >> 46, return_counts=True)
    low = (buckets << 46).view(np.float64)
    high = ((buckets + 1) << 46).view(np.float64)
    tables["histogram"].extend(
        about | {"bucket": int(b), "low_ns": int(lo), "high_ns": int(hi), "n": int(n)}
        for b, lo, hi, n in zip(buckets, low, high, counts, strict=True)
    )


def _add_cells(tables: dict[str, list[dict]], example: Example) -> None:
    for cell, broker, levels in example.cells():
        runs = [row for row in tables["runs"] if row["cell"] == cell]
        valid = {row["run_id"] for row in runs if row["verdict"] == "valid"}
        for metric, values in _run_values(tables, cell, broker, valid).items():
            unit = next((unit for part, unit in UNITS.items() if part in metric), "")
            tables["cells"].append(
                {"cell": cell, "broker": broker, "qos": int(levels.get("qos", 0)), "levels": levels, "metric": metric}
                | {"unit": unit, "n": len(values), "invalid_runs": len(runs) - len(valid), "confidence_percent": 95.0}
                | interval(values)
            )


def interval(values: list[float]) -> dict[str, float | None]:
    """Mean and Student's interval, as the pipeline writes them."""
    n = len(values)
    mean = float(np.mean(values)) if n else None
    if n < 2:
        return {"mean": mean, "low": None, "high": None, "sd": None}
    half = float(stats.t.ppf(0.975, n - 1) * np.std(values, ddof=1) / np.sqrt(n))
    return {"mean": mean, "low": mean - half, "high": mean + half, "sd": float(np.std(values, ddof=1))}


def _run_values(tables: dict[str, list[dict]], cell: str, broker: str, valid: set[str]) -> dict[str, list[float]]:
    latency = [row for row in tables["latency"] if row["cell"] == cell and row["run_id"] in valid]
    delivery = [row for row in tables["delivery"] if row["cell"] == cell and row["run_id"] in valid]
    cost = MEDIAN_MS.get(broker, 0.5)
    wobble = [1 + 0.01 * i for i in range(len(valid))]
    names = ("mean", "p50", "p95", "p99", "p99_9", "max")
    found = {f"latency.{name}": [row[f"{name}_ms"] for row in latency] for name in names}
    found["delivery.failure_percent"] = [row["failure_percent"] for row in delivery]
    found["delivery.duplicated"] = [float(row["duplicated"]) for row in delivery]
    found["throughput.published_per_s"] = [999.8 for _ in wobble]
    found["throughput.delivered_per_s"] = [1999.0 + w for w in wobble]
    found["resources.broker_cpu_percent"] = [22 * cost**0.8 * 2 * w for w in wobble]
    found["resources.broker_rss_max_mib"] = [9 + 30 * cost * w for w in wobble]
    found["resources.cpu_us_per_delivery"] = [110 * cost * w for w in wobble]
    return found


def _study_text(example: Example) -> str:
    brokers = "\n".join(f"    {broker}: {{driver: {broker}}}" for broker in example.brokers)
    return f"""brokerlab: 1
study: first-light

goals:
  question: {json.dumps(example.question)}
  rank_by: {example.rank_by}

system:
  brokers:
{brokers}

scenario:
  workload: {{publishers: 4, subscribers: 2, payload: 64 B, schedule: {{rate: 250/s, arrivals: constant}}}}
  variables:
    broker: [{", ".join(example.brokers)}]
  topology: loopback

deploy: {{repetitions: {example.repetitions}, seed: 7}}
"""


def _write_manifests(results: StudyDirectory, runs: list[dict]) -> None:
    for row in runs:
        command = [f"/usr/sbin/{row['broker']}", "-c", f"/tmp/results/runs/{row['run_id']}/broker/node.conf"]
        folder = results.run(row["run_id"]).path
        folder.mkdir(parents=True)
        manifest = {
            "format": 1,
            "run": {"id": row["run_id"], "order": row["order"], "cell": row["cell"], "repetition": row["repetition"]},
            "guards": {"generator_cpu_percent": 70.0, "schedule_lag_p99_ms": 5.0},
            "machine": {"host": "bench-2", "cores": 2, "memory_bytes": 8 * 2**30, "cpu_model": row["cpu_model"]}
            | {"kernel": row["kernel"], "congestion_control": "cubic", "python": "3.11.2", "load_before": 0.31},
            "versions": {"brokerlab": "0.1.0", "numpy": "2.3.4", "pyarrow": "22.0.0", "numba": "0.62.1"},
            "broker": {"name": row["broker"], "driver": row["driver"], "version": row["version"], "preset": "stock"}
            | {"command": command, "address": "127.0.0.1:41883"},
            "verdict": {"value": row["verdict"], "reasons": row["reasons"]},
        }
        (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
