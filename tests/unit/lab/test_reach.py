"""How many connections the limits of a machine allow."""

from dataclasses import replace

import pytest

from brokerlab.lab.reach import Reach, nodes_shortfall, read_reach, shortfalls
from brokerlab.study.ensemble_values import Ensemble, Join
from brokerlab.study.life import loopback_addresses
from brokerlab.study.limit_values import Limits
from brokerlab.study.plan import Cell
from brokerlab.study.values import BrokerChoice, ClientLife, Roles, Workload

pytestmark = pytest.mark.unit
REACH = Reach(open_files=100_000, ports=28_000, memory=90_000)


def workload(idle, addresses=0):
    return Workload(
        publishers=10, subscribers=5, clients=ClientLife(idle=idle, addresses=loopback_addresses(addresses))
    )


@pytest.mark.parametrize(
    ("role", "fit"), [(Roles.ONE_WAY, 27_999), (Roles.ECHO, 9_333), (Roles.LOOP, 28_000)]
)  # fmt: skip
def test_all_clients_of_the_role_count(role, fit):
    """An echo has three connections for each publisher, a loop one."""
    assert shortfalls(Workload(publishers=fit, role=role), REACH) == []
    assert shortfalls(Workload(publishers=fit + 1, role=role), REACH) != []


def test_the_smallest_limit_decides():
    assert REACH.most() == 28_000
    assert REACH.most(addresses=3) == 84_000
    assert REACH.most(addresses=9) == 90_000
    assert REACH.addresses_needed() == 4


@pytest.mark.parametrize(
    ("asked", "problems"),
    [
        (workload(20_000), []),
        (workload(30_000, addresses=2), []),
        (workload(30_000), ["1 source address has 28,000 ports (set scenario.workload.clients.addresses to 2)"]),
        (workload(95_000, addresses=4), ["the memory that is free is enough for about 90,000"]),
        (
            workload(200_000, addresses=2),
            [
                "the limit of open files allows 100,000 (raise the hard limit of nofile)",
                "2 source addresses have 56,000 ports (set scenario.workload.clients.addresses to 8)",
                "the memory that is free is enough for about 90,000",
            ],
        ),
    ],
)
def test_shortfalls_are_told_in_numbers(asked, problems):
    assert shortfalls(asked, REACH) == problems


def test_this_machine_can_hold_some():
    assert read_reach().most() > 0


def test_nodes_that_do_not_fit_into_the_memory_are_refused():
    """Three nodes of 2 GiB each need 6 GiB."""
    three = Ensemble(3, Join.BRIDGE)
    cell = Cell(
        "broker-a",
        (),
        BrokerChoice("a", "a"),
        Workload(),
        Limits(memory_bytes=2 << 30),
        ensemble=three,
    )

    assert nodes_shortfall(cell, 6 << 30) == ""
    assert nodes_shortfall(cell, 5 << 30).endswith("the 5.0 GiB that are free are enough for 2")
    assert nodes_shortfall(replace(cell, ensemble=Ensemble()), 1 << 30) == ""
