"""How many connections the limits of a machine allow."""

import pytest

from brokerlab.lab.reach import Reach, connections_of, read_reach, shortfalls
from brokerlab.study.life import loopback_addresses
from brokerlab.study.values import ClientLife, Workload

pytestmark = pytest.mark.unit
REACH = Reach(open_files=100_000, ports=28_000, memory=90_000)


def workload(idle, addresses=0):
    return Workload(
        publishers=10, subscribers=5, clients=ClientLife(idle=idle, addresses=loopback_addresses(addresses))
    )


def test_all_clients_count():
    assert connections_of(workload(85)) == 100


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
