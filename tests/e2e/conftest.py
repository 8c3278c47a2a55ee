"""Fixtures of the end-to-end tests."""

from collections.abc import Iterator

import pytest
from side_by_side import make_planned

from brokerlab.pipeline.jobs import analyze
from brokerlab.pipeline.session import open_session
from brokerlab.record.directory import StudyDirectory


@pytest.fixture(scope="session")
def spark() -> Iterator[object]:
    session = open_session(app="brokerlab-e2e")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def analysed(request, spark, tmp_path_factory) -> StudyDirectory:
    """The runs of all modules that are tested here and have `planned()`, with the tables of all together.

    One analysis takes longer than many runs, and every table has a row's cell: their names differ between modules.
    """
    results = StudyDirectory(tmp_path_factory.mktemp("analysed"))
    modules = dict.fromkeys(item.module for item in request.session.items if hasattr(item.module, "planned"))
    planned = [pair for module in modules for pair in module.planned()]
    assert len({run.id for _, run in planned}) == len(planned)
    make_planned(planned, results)
    analyze(spark, results)
    return results
