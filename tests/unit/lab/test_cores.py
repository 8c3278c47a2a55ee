import os
import subprocess
import sys
from pathlib import Path

import pytest

from brokerlab.lab.cores import Division, divide_cores, hold, pin

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


@pytest.mark.parametrize("workers", range(1, 13))
def test_more_cores_never_give_a_worker_less_and_none_is_given_twice(workers):
    nodes = ["broker/0", *(f"publishers/{number}" for number in range(workers))]
    before = 0
    for count in range(1, 65):
        divided = divide_cores(range(count), nodes)
        given = sorted(core for cores in (divided or {}).values() for core in cores)
        shares = {node: len(cores) for node, cores in (divided or dict.fromkeys(nodes, ())).items()}
        of_broker, (of_each,) = shares.pop("broker/0"), set(shares.values())

        assert given == list(range(count) if divided else ())
        assert of_each >= before
        assert (of_each >= 1) == (count >= max(4, 2 * workers))
        assert of_broker >= of_each * workers
        before = of_each


def test_of_eight_cores_each_of_three_workers_gets_its_own():
    divided = divide_cores(range(8), [*NODES, "idle/0"])

    assert divided == {"broker/0": [0, 1, 2, 3, 4], "publishers/0": [5], "subscribers/0": [6], "idle/0": [7]}


THREADS = "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start(); print(); input()"


def test_a_process_is_held_to_cores_with_all_its_threads_and_no_other_is():
    ours, core = os.sched_getaffinity(0), max(os.sched_getaffinity(0))
    with subprocess.Popen([sys.executable, "-c", THREADS], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        hold([process.pid], [core])
        threads = [int(each.name) for each in Path(f"/proc/{process.pid}/task").iterdir()]
        cores = [os.sched_getaffinity(thread) for thread in threads]
        process.kill()

    assert cores == [{core}, {core}]
    assert os.sched_getaffinity(0) == ours
    hold([process.pid], [core])  # it has ended, which is no matter


def test_pinning_says_what_the_kernel_then_says():
    """On two cores as well: the study gives the broker one of them."""
    ours = sorted(os.sched_getaffinity(0))
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        divided = pin({"broker/0": [process.pid], "publishers/0": []}, broker_cores=ours[:1])
        cores = os.sched_getaffinity(process.pid)
        process.kill()

    if len(ours) == 1:
        assert divided == Division(None, is_shared=False)
    else:
        assert divided == Division({"broker/0": ours[:1], "publishers/0": ours[1:2]}, is_shared=False)
        assert divided.of_broker == ours[:1]
        assert cores == set(ours[:1])


@pytest.mark.parametrize(
    ("pids", "is_shared"),
    [
        ({"broker/0": [1 << 30], "publishers/0": [1 << 30]}, True),
        ({"publishers/0": [1 << 30], "subscribers/0": [1 << 30]}, False),  # somebody's broker, elsewhere
        ({"broker/0": [], "publishers/0": [1 << 30]}, False),
        ({"broker/0": [1 << 30]}, False),  # the load is elsewhere
    ],
)
def test_cores_are_shared_where_broker_and_load_are_both_here_and_have_none_of_their_own(pids, is_shared):
    """These processes do not exist, and none is looked for: so many cores to spare nobody has."""
    found = pin(pids, broker_cores=sorted(os.sched_getaffinity(0)) if len(pids) > 1 else None)

    assert found.is_shared == is_shared
    assert pin({"publishers/0": [1 << 30]}, is_near=True).is_shared  # somebody's broker that is here
    assert len(pids) == 1 or found == Division(None, is_shared=is_shared)


def test_workers_stay_off_the_cores_that_the_study_gives_the_broker():
    divided = divide_cores(range(3), NODES, broker_cores=(1,))

    assert divided == {"broker/0": [1], "publishers/0": [0], "subscribers/0": [2]}
    fewer = divide_cores(range(2), NODES, broker_cores=(1,))
    assert fewer == {"broker/0": [1], "publishers/0": [0], "subscribers/0": [0]}
    assert divide_cores(range(2), NODES, broker_cores=(0, 1)) is None
