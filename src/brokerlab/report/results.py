"""What the report reads: the study file, the tables and the manifests of one directory of results."""

import json
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from brokerlab.errors import UserError
from brokerlab.pipeline.tables import read_table
from brokerlab.record.directory import StudyDirectory
from brokerlab.record.manifest import Json
from brokerlab.record.probes import read_probes
from brokerlab.study.values import Analysis, Goals

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class StudyText:
    """The study file: its own words, and the few settings that the report shows."""

    name: str
    question: str
    rank_by: str
    seed: str
    topology: str
    text: str


@dataclass(frozen=True, slots=True)
class Results:
    """Everything that a report shows. Rows are as in the table of the same name."""

    study: StudyText
    runs: list[Row]
    cells: list[Row]
    delivery: list[Row]
    latency: list[Row]  # kind "intended", group "all"
    counters: list[Row]
    histogram: pa.Table
    manifests: dict[str, Json]  # by run id
    unreadable: tuple[str, ...]  # why a manifest could not be read
    planned: frozenset[str]  # run ids of plan.json
    left_out: tuple[str, ...]  # optional brokers that the plan found missing
    unable: tuple[tuple[str, str], ...] = ()  # (broker, why): those that the plan left out of some cells
    jitter: tuple[Row, ...] = ()  # this and the next: nothing in tables of pipeline version 1
    sessions: tuple[Row, ...] = ()
    capacity: tuple[Row, ...] = ()  # nothing in tables before pipeline version 3
    throughput: tuple[Row, ...] = ()
    resources: tuple[Row, ...] = ()
    subscribers: tuple[Row, ...] = ()
    comparisons: tuple[Row, ...] = ()  # this and the next: nothing in tables before pipeline version 6
    effects: tuple[Row, ...] = ()
    network: tuple[Row, ...] = ()
    overhead: tuple[Row, ...] = ()
    faults: tuple[Row, ...] = ()
    latency_beside: tuple[Row, ...] = ()  # of what is no load: report/beside.py
    latency_by_way: tuple[Row, ...] = ()  # within nodes of an ensemble and between them: report/crossing.py
    latency_by_payload: tuple[Row, ...] = ()  # of classes of payloads, where a run has several
    published: tuple[Row, ...] = ()  # where the study names printed tables
    traffic: tuple[Row, ...] = ()  # this and the next two: nothing in tables before pipeline version 7
    legs: tuple[Row, ...] = ()
    captures: tuple[Row, ...] = ()
    traces: tuple[Row, ...] = ()  # single messages, of a study beside paper 003
    rankings: tuple[Row, ...] = ()  # this and the next two: beside which papers the study stands
    boxes: tuple[Row, ...] = ()
    equations: tuple[Row, ...] = ()
    probes: tuple[Json, ...] = ()  # that were kept with the results: record/probes.py

    @property
    def valid_runs(self) -> frozenset[str]:
        return frozenset(row["run_id"] for row in self.runs if row["verdict"] == "valid")

    @property
    def confidence_percent(self) -> float:
        stated = [row["confidence_percent"] for row in self.cells if row["confidence_percent"] is not None]
        return float(stated[0]) if stated else Analysis().confidence_percent


def read_results(results: StudyDirectory) -> Results:
    manifests, unreadable = _manifests(results)
    probes, unread = read_probes(results.probes)
    plan = _read_plan(results)
    return Results(
        study=read_study_text(results),
        runs=sorted(_rows(results, "runs"), key=lambda row: (row["order"] or 0, row["run_id"])),
        cells=_rows(results, "cells"),
        delivery=_rows(results, "delivery"),
        latency=[row for row in _rows(results, "latency") if row["kind"] == "intended" and row["group"] == "all"],
        counters=_rows(results, "counters"),
        histogram=read_table(results, "histogram"),
        manifests=manifests,
        unreadable=(*unreadable, *unread),
        planned=frozenset(run["id"] for run in plan.get("runs", [])),
        left_out=tuple(plan.get("left_out", [])),
        unable=tuple((str(broker), str(why)) for broker, why in plan.get("unable", [])),
        jitter=_rows_if_made(results, "jitter"),
        sessions=_rows_if_made(results, "sessions"),
        capacity=_rows_if_made(results, "capacity"),
        throughput=_rows_if_made(results, "throughput"),
        resources=_rows_if_made(results, "resources"),
        subscribers=_rows_if_made(results, "subscribers"),
        comparisons=_rows_if_made(results, "comparisons"),
        effects=_rows_if_made(results, "effects"),
        network=_rows_if_made(results, "network"),
        overhead=_rows_if_made(results, "overhead"),
        published=_rows_if_made(results, "published"),
        faults=_rows_if_made(results, "faults"),
        traffic=_rows_if_made(results, "traffic"),
        legs=_rows_if_made(results, "legs"),
        captures=_rows_if_made(results, "captures"),
        traces=_rows_if_made(results, "traces"),
        rankings=_rows_if_made(results, "rankings"),
        boxes=_rows_if_made(results, "boxes"),
        equations=_rows_if_made(results, "equations"),
        probes=probes,
        latency_beside=tuple(row for row in _rows(results, "latency") if is_beside(row)),
        latency_by_way=tuple(row for row in _rows(results, "latency") if is_by_way(row)),
        latency_by_payload=tuple(row for row in _rows(results, "latency") if is_by_payload(row)),
    )


def is_by_way(row: Row) -> bool:
    return row["kind"] == "intended" and row["group"] in ("local", "crossing")


def is_by_payload(row: Row) -> bool:
    return row["kind"] == "intended" and str(row["group"]).startswith("payload ")


def is_beside(row: Row) -> bool:
    """Whether a row of the latency table is of devices, or of the probe."""
    return row["kind"] in ("there", "device") or row["group"] == "probe"


def _rows(results: StudyDirectory, name: str) -> list[Row]:
    rows: list[Row] = read_table(results, name).to_pylist(maps_as_pydicts="strict")
    return rows


def _rows_if_made(results: StudyDirectory, name: str) -> tuple[Row, ...]:
    return tuple(_rows(results, name)) if results.table(name).is_dir() else ()


def _manifests(results: StudyDirectory) -> tuple[dict[str, Json], tuple[str, ...]]:
    """A manifest that cannot be read is named in the report, and the others still count."""
    read: dict[str, Json] = {}
    unreadable: list[str] = []
    for run in results.runs():
        try:
            manifest = run.manifest()
        except UserError as problem:
            unreadable.append(problem.message)
        else:
            read[f"{run.path.parent.name}/{run.path.name}"] = manifest
    return read, tuple(unreadable)


def read_study_text(results: StudyDirectory) -> StudyText:
    try:
        text = results.study.read_text(encoding="utf-8")
        content = YAML(typ="safe", pure=True).load(text)
    except (OSError, YAMLError) as problem:
        raise UserError(
            f"{results.study}: the study cannot be read: {problem}",
            hint="the report needs the study.yaml that `brokerlab run` wrote beside tables/",
        ) from problem
    if not isinstance(content, dict):
        raise UserError(f"{results.study}: not a study file")
    goals = content.get("goals") or {}
    return StudyText(
        name=str(content.get("study", results.path.name)),
        question=str(goals.get("question", "")),
        rank_by=str(goals.get("rank_by", Goals("").rank_by)),
        seed=str((content.get("deploy") or {}).get("seed", "not stated")),
        topology=_topology((content.get("scenario") or {}).get("topology", "loopback")),
        text=text,
    )


def _read_plan(results: StudyDirectory) -> Json:
    """The plan, or nothing where these results came without one."""
    if not results.plan.exists():
        return {}
    try:
        plan: Json = json.loads(results.plan.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise UserError(f"{results.plan}: the plan cannot be read: {problem}") from problem
    return plan


def _topology(topology: object) -> str:
    return str(topology.get("shape", topology)) if isinstance(topology, dict) else str(topology)
