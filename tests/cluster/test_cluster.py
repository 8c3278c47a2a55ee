"""The pipeline on a real standalone cluster and behind Spark Connect: the same test bodies, the same tables.

Not part of `make test`: six Java processes take more of two cores than all other tests of the pipeline.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from spark_cluster import connect_server

PIPELINE = Path(__file__).parents[1] / "pipeline"
# All tables from raw files, hand-countable; damage; captures; imports; every table from empty, reordered, repartitioned
# input; what papers print and claim beside ours; questionnaires.
BODIES = (
    "test_pipeline_columns.py",
    "test_analyze_example.py",
    "test_analyze_damage.py",
    "test_flow_tables.py",
    "test_pipeline_transforms.py",
    "test_capture_tables.py",
    "test_capture_transforms.py",
    "test_delivery_table.py",
    "test_counters_table.py",
    "test_cells_table.py",
    "test_level_tables.py",
    "test_traces_table.py",
    "test_import_tables.py",
    "test_beside_papers.py",
    "test_claims_table.py",
    "test_quality_tables.py",
    "test_tables_apart.py",
)


@pytest.fixture
def run_bodies(capsys):
    """Runs them at a master: pytest's exit code and the end of what it printed, all of which is shown as it comes."""

    def run(master):
        command = [sys.executable, "-m", "pytest", "-v", "-x", "-p", "no:cacheprovider"]
        told = []
        with subprocess.Popen(
            [*command, *(str(PIPELINE / name) for name in BODIES)],
            env={**os.environ, "BROKERLAB_SPARK": master}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        ) as process, capsys.disabled():  # fmt: skip
            for line in process.stdout:
                told.append(line)
                print(line, end="", flush=True)
        return process.returncode, "".join(told[-60:])

    return run


def test_bodies_of_the_pipelines_tests_hold_on_the_cluster(cluster, run_bodies):
    code, told = run_bodies(cluster)

    assert code == 0, told


def test_bodies_of_the_pipelines_tests_hold_behind_spark_connect(cluster, run_bodies, tmp_path):
    with connect_server(tmp_path, cluster) as url:
        code, told = run_bodies(url)

    assert code == 0, told


@pytest.mark.parametrize("master", ["sc://127.0.0.1:1", "spark://127.0.0.1:1"])
def test_a_place_where_no_spark_is_is_told(master, tmp_path):
    script = f"from brokerlab.pipeline.session import open_session; open_session(app='none', master={master!r})"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300, check=False)

    assert "UserError" in done.stderr
    assert master in done.stderr
