"""What a manifest says of a run before anything starts."""

import time
from dataclasses import asdict

from brokerlab.lab.calibration import run_section
from brokerlab.lab.machine import machine_facts, versions
from brokerlab.record.manifest import Manifest
from brokerlab.study.identity import identity_section
from brokerlab.study.plan import PlannedRun
from brokerlab.study.values import Study


def describe_run(manifest: Manifest, run: PlannedRun, study: Study) -> None:
    """Writes what is known before anything starts."""
    cell = run.cell
    manifest.add(
        "run",
        {
            "id": run.id,
            "study": study.name,
            "cell": cell.id,
            "repetition": run.repetition,
            "order": run.order,
            "seed": run.seed,
            "levels": dict(cell.levels),
        },
    )
    manifest.add("workload", asdict(cell.workload))
    manifest.add("identity", identity_section(cell.workload))
    manifest.add("guards", asdict(study.analysis.guards))
    manifest.add("ledger", {"late_s": study.analysis.late_s})
    manifest.add("machine", machine_facts())
    manifest.add("versions", versions())
    manifest.add("calibration", run_section(cell, load_on=study.deploy.load_on))
    manifest.add("clock", {"name": "CLOCK_MONOTONIC", "mono_ns": time.monotonic_ns(), "wall_ns": time.time_ns()})
