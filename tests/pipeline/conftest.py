"""One Spark session for all tests of the pipeline."""

import os

import pyarrow as pa
import pytest
from pipeline_example import write_example
from pipeline_runs import new_study

from brokerlab.pipeline.manifests import manifests_table, read_runs
from brokerlab.pipeline.reduce.work import pieces_of, reduce_work
from brokerlab.pipeline.schemas.families import PARTIALS
from brokerlab.pipeline.schemas.manifests import MANIFESTS
from brokerlab.pipeline.session import open_session


@pytest.fixture(scope="session")
def spark():
    with open_session(app="brokerlab-tests", master=os.environ.get("BROKERLAB_SPARK", "local[2]")) as session:
        # Frames of ten rows: compiling their plans would take longer than all else. The whole way through the program
        # (tests/e2e) has it as users do.
        session.conf.set("spark.sql.codegen.wholeStage", "false")
        session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
        yield session


@pytest.fixture
def study(tmp_path):
    """An empty directory of results."""
    return new_study(tmp_path / "results")


@pytest.fixture(scope="session")
def example(tmp_path_factory, spark):
    """Partials and runs of the study that can be counted on paper."""
    study = new_study(tmp_path_factory.mktemp("transforms"))
    write_example(study)
    facts, _ = read_runs(study)
    batches = [batch for run in facts for work in pieces_of(run) for batch in reduce_work(work)]
    partials = spark.createDataFrame(pa.Table.from_batches(batches), schema=PARTIALS)
    return partials, spark.createDataFrame(manifests_table(facts), schema=MANIFESTS)
