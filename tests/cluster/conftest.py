import pytest
from spark_cluster import standalone


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """The master's URL."""
    with standalone(tmp_path_factory.mktemp("cluster")) as url:
        yield url
