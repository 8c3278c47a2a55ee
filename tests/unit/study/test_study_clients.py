"""How clients live, as a study file says it: what is read, what is refused, and that it can be varied."""

from dataclasses import replace

import pytest

from brokerlab.errors import UserError
from brokerlab.study.plan import make_plan
from brokerlab.study.values import Behaviour, ClientLife, SessionKind, Who
from brokerlab.study.written import study_yaml

pytestmark = pytest.mark.unit


@pytest.fixture
def with_clients(small):
    """The small study with these clients, arrivals and variables."""

    def make(clients, *, schedule="{rate: 100/s}", variables=""):
        head, scenario, tail = small.partition("scenario:\n")
        assert scenario
        lines = tail.splitlines()
        rest = next((number for number, line in enumerate(lines) if line and not line.startswith(" ")), len(lines))
        varied = f"  variables: {{{variables}}}\n" if variables else ""
        written = f"  workload: {{clients: {clients}, schedule: {schedule}}}\n{varied}"
        return head + scenario + written + "\n".join(lines[rest:]) + "\n"

    return make


def test_every_key_is_read_and_written_back(read, with_clients):
    study = read(
        with_clients(
            "{behaviour: storm, every: 2 s, who: all, session: persistent, connect_rate: 500/s, keep_alive: 30 s, "
            "idle: 7, addresses: 2}"
        )
    )

    life = study.scenario.workload.clients
    assert life == ClientLife(
        behaviour=Behaviour.STORM,
        connect_rate_per_s=500.0,
        every_s=2.0,
        who=Who.ALL,
        session=SessionKind.PERSISTENT,
        keep_alive_s=30,
        idle=7,
        addresses=("127.0.0.1", "127.0.0.2"),
    )
    assert read(study_yaml(study)) == study


def test_levels_make_cells(read, with_clients):
    study = read(
        with_clients("{lifetime: 5 s}", variables="behaviour: [persistent, churn], addresses: [1, 3], idle: [0, 10]")
    )

    cells = make_plan(study, missing={}).cells
    lives = [cell.workload.clients for cell in cells]
    assert len({cell.id for cell in cells}) == len(cells)
    assert {(life.behaviour, len(life.addresses), life.idle) for life in lives} == {
        (behaviour, addresses, idle)
        for behaviour in (Behaviour.PERSISTENT, Behaviour.CHURN)
        for addresses in (1, 3)
        for idle in (0, 10)
    }
    assert read(study_yaml(study)) == study


@pytest.mark.parametrize(
    ("clients", "schedule", "problem"),
    [
        ("{behaviour: chrun}", "{rate: 100/s}", "churn"),
        ("{behaviour: churn}", "{rate: 100/s}", "needs the key lifetime in scenario.workload.clients"),
        ("{behaviour: storm}", "{rate: 100/s}", "needs the key every"),
        ("{behaviour: storm, every: 1 h}", "{rate: 100/s}", "no storm comes in the "),
        ("{lifetime: 5 s}", "{rate: 100/s}", "belongs to the behaviour churn"),
        ("{who: all}", "{rate: 100/s}", "belongs to the behaviours churn and storm"),
        ("{behaviour: churn, lifetime: 1 s, who: all}", "{arrivals: search, rate: 1/s}", "session: persistent"),
        ("{behaviour: per-message}", "{arrivals: saturate}", "saturate arrivals are a closed loop"),
        ("{connect_rate: 0/s}", "{rate: 100/s}", "must be above 0"),
        ("{behaviour: churn, lifetime: 1 ms}", "{rate: 100/s}", "must be from 10 ms to 24 h"),
        ("{keep_alive: 0 s}", "{rate: 100/s}", "must be whole seconds from 1 s"),
        ("{keep_alive: 1.5 s}", "{rate: 100/s}", "must be whole seconds from 1 s"),
        ("{idle: -1}", "{rate: 100/s}", "must be from 0"),
        ("{addresses: 0}", "{rate: 100/s}", "must be from 1 to 254"),
        ("{addresses: [127.0.0.1, nowhere]}", "{rate: 100/s}", "is no IPv4 address"),
        ("{addresses: [127.0.0.1, 127.0.0.1]}", "{rate: 100/s}", "must be different addresses"),
        ("{session: clear}", "{rate: 100/s}", "clean"),
    ],
)
def test_mistakes_are_told(read, with_clients, clients, schedule, problem):
    with pytest.raises(UserError, match=problem):
        read(with_clients(clients, schedule=schedule))


def test_defaults_are_written_back_equal(read, small):
    study = read(small)

    assert study.scenario.workload.clients == ClientLife()
    assert read(study_yaml(study)) == replace(study)
