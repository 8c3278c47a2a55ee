"""Every chosen driver that is found on this machine, and a running broker of each.

`make test` takes those that are quick to start; BROKERLAB_CONTRACT=all takes all, or names some.
"""

import contextlib

import pytest
from broker_rig import chosen_drivers, running, subscribe_unhurried

from brokerlab.brokers.base import Broker, Departure, Missing
from brokerlab.brokers.registry import DRIVERS
from brokerlab.load.client import Client


@pytest.fixture(scope="session", params=chosen_drivers())
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


@pytest.fixture(scope="session")
def broker_for(driver, broker, tmp_path_factory):
    """The running broker for clients of a version: the same for all, unless it has a port for each."""
    with contextlib.ExitStack() as stack:
        others = {"3.1.1": broker}

        def started(protocol):
            if not driver.abilities.has_port_per_protocol:
                return broker
            if protocol not in others:
                folder = tmp_path_factory.mktemp(driver.name) / "0"
                others[protocol] = stack.enter_context(running(driver, folder, protocol=protocol))
            return others[protocol]

        yield started


@pytest.fixture(autouse=True)
def unhurried(request, monkeypatch):
    """Clients wait before they subscribe, where the driver says that the broker may close their connection else."""
    if "driver" in request.fixturenames:
        departs = request.getfixturevalue("driver").abilities.departs
        if Departure.CLOSES_AT_SUBSCRIBE in departs:
            monkeypatch.setattr(Client, "subscribe", subscribe_unhurried)
