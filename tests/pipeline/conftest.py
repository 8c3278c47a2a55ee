"""One Spark session for all tests of the pipeline."""

import pytest
from pipeline_runs import new_study

from brokerlab.pipeline.session import open_session


@pytest.fixture(scope="session")
def spark():
    with open_session(app="brokerlab-tests", master="local[2]") as session:
        yield session


@pytest.fixture
def study(tmp_path):
    """An empty directory of results."""
    return new_study(tmp_path / "results")
