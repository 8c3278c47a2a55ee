"""A real install from a real registry, in a cache of its own: the broker runs out of it, and is gone after."""

import os

import pytest
from broker_rig import CHOICE, running

from brokerlab.brokers.base import Found, Missing
from brokerlab.brokers.install.installer import install, remove
from brokerlab.brokers.registry import DRIVERS

pytestmark = pytest.mark.brokers
QUICKEST = "aedes"


class Silent:
    def step(self, doing):
        pass

    def line(self, text):
        pass


def test_a_broker_runs_from_an_empty_cache_and_is_gone_after(tmp_path, monkeypatch):
    if os.environ.get(CHOICE, "quick") == "quick":
        pytest.skip("make test-brokers installs brokers; make test does not")
    monkeypatch.setenv("BROKERLAB_CACHE", str(tmp_path / "cache"))
    driver = DRIVERS[QUICKEST]
    assert isinstance(driver.find(), Missing)

    outcome = install(driver, Silent())
    with running(driver, tmp_path / "0") as started:
        assert str(tmp_path) in " ".join(started.process.node.argv)
    assert driver.find() == outcome.found
    assert isinstance(outcome.found, Found)

    assert remove(driver, Silent())
    assert isinstance(driver.find(), Missing)
