"""Every driver that is found on this machine, and a running broker of each."""

import pytest
from broker_rig import running

from brokerlab.brokers.base import Broker, Missing
from brokerlab.brokers.registry import DRIVERS


@pytest.fixture(scope="session", params=sorted(DRIVERS))
def driver(request) -> Broker:
    """Each driver in turn; a broker that is not here is skipped with the way to get it."""
    found = DRIVERS[request.param].find()
    if isinstance(found, Missing):
        pytest.skip(f"{found.reason}: {found.hint}")
    return DRIVERS[request.param]


@pytest.fixture(scope="session")
def broker(driver, tmp_path_factory):
    """One running broker for all tests that leave nothing behind in it."""
    with running(driver, tmp_path_factory.mktemp(driver.name) / "0") as started:
        yield started
