"""Which ensembles of a study are probed, and what is kept of one that does not join."""

import contextlib

import pytest

from brokerlab.errors import RunError
from brokerlab.lab.probe import keeping
from brokerlab.lab.probe.keeping import ensembles_of, keep_ensembles
from brokerlab.record.probes import keep_probe, read_probes
from brokerlab.study.ensemble_values import SINGLE, Ensemble, Join
from brokerlab.study.plan import Cell
from brokerlab.study.values import BrokerChoice, Workload

NATS, AMQTT = BrokerChoice("ours", "nats"), BrokerChoice("amqtt", "amqtt")
THEIRS = BrokerChoice("theirs", "remote")


def cell(broker, ensemble, members=()):
    return Cell(broker.name, (), broker, Workload(), ensemble=ensemble, members=members)


def test_every_kind_of_ensemble_is_probed_once_at_its_smallest():
    cells = [
        cell(NATS, Ensemble(5, Join.CLUSTER)),
        cell(NATS, Ensemble(3, Join.CLUSTER)),
        cell(NATS, Ensemble(3, Join.BRIDGE)),
        cell(AMQTT, SINGLE),
        cell(AMQTT, Ensemble(2, Join.BRIDGE), members=(AMQTT, NATS)),  # a mixed one is none of a broker's
        cell(THEIRS, Ensemble(2, Join.BRIDGE)),  # what runs elsewhere is not started
    ]

    assert ensembles_of(cells) == [("nats", Join.CLUSTER, 3), ("nats", Join.BRIDGE, 3)]


def test_an_ensemble_that_does_not_join_is_kept_with_the_reason(tmp_path, monkeypatch):
    @contextlib.contextmanager
    def never(name, *, nodes, join):
        raise RunError(f"{nodes} nodes of {name} do not join")
        yield

    monkeypatch.setattr(keeping, "opened_ensemble", never)
    asked = []

    paths = keep_ensembles(tmp_path, [cell(AMQTT, Ensemble(3, Join.BRIDGE))], before=lambda *said: asked.append(said))

    (probe,), _ = read_probes(tmp_path)
    assert [path.name for path in paths] == ["amqtt.bridge.json"]
    assert asked == [("amqtt", Join.BRIDGE, 3)]
    assert (probe["failed"], probe["nodes"]) == ("3 nodes of amqtt do not join", 3)
    assert probe["version"]


def test_what_is_kept_already_is_not_probed_again(tmp_path):
    keep_probe(tmp_path, "nats", "cluster", {})

    def never(*_):
        pytest.fail("it is kept already")

    assert keep_ensembles(tmp_path, [cell(NATS, Ensemble(3, Join.CLUSTER))], before=never) == []
