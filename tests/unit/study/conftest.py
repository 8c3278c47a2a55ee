"""What the tests of study share: a small sound study, and drivers of which one has no QoS 2."""

from types import MappingProxyType

import pytest

from brokerlab.study.facts import DriverFacts
from brokerlab.study.file import read_study
from brokerlab.study.problems import StudyError

DRIVERS = MappingProxyType(
    {
        "amqtt": DriverFacts(options=("max_connections",)),
        "nats": DriverFacts(qos=(0, 1)),
        "mosquitto": DriverFacts(presets=("stock", "tuned"), reason_missing="mosquitto is not on the PATH"),
        "old": DriverFacts(protocols=("3.1",)),
    }
)

SMALL = """\
brokerlab: 1
study: small
goals:
  question: Which is faster?
system:
  brokers:
    one: {driver: amqtt}
    two: {driver: amqtt}
metrics: [latency]
scenario:
  variables:
    broker: [one, two]
    qos: [0, 1]
"""


@pytest.fixture
def small():
    """The text of a small sound study."""
    return SMALL


@pytest.fixture(scope="session")
def drivers():
    return DRIVERS


@pytest.fixture
def read(tmp_path):
    """Reads a text as the file study.yaml, with settings."""

    def reader(text, *settings):
        path = tmp_path / "study.yaml"
        path.write_text(text, encoding="utf-8")
        return read_study(path, settings=settings, drivers=DRIVERS)

    return reader


@pytest.fixture
def problems(read):
    """The problems of a text, which must have some."""

    def reader(text, *settings):
        with pytest.raises(StudyError) as caught:
            read(text, *settings)
        return caught.value.problems

    return reader
