import os
import subprocess
import sys

import pytest

from brokerlab.lab.cores import divide_cores, pin

pytestmark = pytest.mark.unit
NODES = ["broker/0", "publishers/0", "subscribers/0"]


@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_cores_are_shared(count):
    assert divide_cores(range(count), NODES) is None


def test_four_cores_are_divided():
    assert divide_cores([3, 1, 0, 2], NODES) == {"broker/0": [0, 1], "publishers/0": [2], "subscribers/0": [3]}


def test_of_many_cores_a_worker_gets_two():
    divided = divide_cores(range(8), NODES)

    assert divided == {"broker/0": [0, 1, 2, 3], "publishers/0": [4, 5], "subscribers/0": [6, 7]}


def test_so_many_workers_that_the_broker_would_have_less_than_half_share():
    assert divide_cores(range(4), [*NODES, "subscribers/1"]) is None


def test_pinning_says_what_the_kernel_then_says():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        divided = pin({"broker/0": [process.pid], "publishers/0": [], "subscribers/0": []})
        cores = os.sched_getaffinity(process.pid)
        process.kill()

    assert cores == (os.sched_getaffinity(0) if divided is None else set(divided["broker/0"]))


def test_workers_stay_off_the_cores_that_the_study_gives_the_broker_where_there_are_enough_others():
    divided = divide_cores(range(3), NODES, broker_cores=(1,))

    assert divided == {"broker/0": [1], "publishers/0": [0], "subscribers/0": [2]}
    assert divide_cores(range(2), NODES, broker_cores=(1,)) is None
