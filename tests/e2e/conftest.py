"""Fixtures of the end-to-end tests."""

from collections.abc import Iterator

import pytest

from brokerlab.pipeline.session import open_session


@pytest.fixture(scope="session")
def spark() -> Iterator[object]:
    session = open_session(app="brokerlab-e2e")
    yield session
    session.stop()
