"""What held a worker back: late wakes by an injected clock, quotas by files as the kernel writes them."""

import os
import time

import pytest

from brokerlab.load import readwalk
from brokerlab.load.quota import Quota, most_ns
from brokerlab.load.spec import Go, Held
from brokerlab.load.stalls import Stalls

pytestmark = pytest.mark.unit
MS = 1_000_000
ORDER = Go(0, 100 * MS, 300 * MS)


def begun():
    found = Stalls()
    found.begin(ORDER)
    return found


def test_what_a_worker_loses_by_late_wakes_is_a_share_of_the_measure_phase():
    worker = begun()
    worker.woke(120 * MS, 121 * MS)  # as punctual as a shared core lets it be
    worker.woke(130 * MS, 150 * MS)
    worker.woke(200 * MS, 230 * MS)

    assert worker.held(has_no_lag=True).stalled_percent == 25.0
    assert worker.held(has_no_lag=False).stalled_percent is None


def test_only_what_is_within_the_measure_phase_counts():
    worker = begun()
    worker.woke(10 * MS, 90 * MS)
    worker.woke(90 * MS, 110 * MS)
    worker.woke(290 * MS, 390 * MS)
    worker.woke(400 * MS, 490 * MS)

    assert worker.held(has_no_lag=True).stalled_percent == 10.0


def test_time_without_a_core_between_two_waits_counts_and_work_does_not():
    worker = begun()
    worker.woke(120 * MS, 120 * MS)
    worker.waits(129 * MS)
    worker.woke(150 * MS, 150 * MS)
    worker.waits(200 * MS)  # by its own clock it has hardly worked

    assert worker.held(has_no_lag=True).stalled_percent == pytest.approx(25, abs=1)

    worker.begin(Go(0, 0, 10**12))
    worker.woke(began_ns := time.thread_time_ns(), began_ns)
    while (now := time.thread_time_ns()) < began_ns + 100 * MS:
        pass
    worker.waits(now)  # all of it was work

    assert worker.held(has_no_lag=True).stalled_percent == 0


def test_an_order_begins_anew():
    worker = begun()
    worker.woke(130 * MS, 150 * MS)
    worker.begin(ORDER)

    assert worker.held(has_no_lag=True).stalled_percent == 0.0


def test_a_worker_without_an_order_was_not_held_back():
    assert Stalls().held(has_no_lag=True) == Held(None, None)


def test_a_compiled_wait_says_by_how_much_it_was_late_once():
    words, begins = readwalk.words(), os.pipe()
    readwalk.wait(words, begins[0], -1_000 * MS)  # it should have ended a second ago
    late_ns = readwalk.late_ns(words)
    for each in begins:
        os.close(each)

    assert late_ns >= 1_000 * MS
    assert readwalk.late_ns(words) == 0


def machine(folder, *, mountinfo, cgroup, **files):
    (folder / "mountinfo").write_text(mountinfo)
    (folder / "cgroup").write_text(cgroup)
    for path, text in files.items():
        file = folder / path.replace("__", "/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.with_name("cpu.stat").write_text(text)
    return Quota(proc=folder)


def test_of_version_2_our_group_and_all_above_it_are_read(tmp_path):
    found = machine(
        tmp_path,
        mountinfo=f"30 20 0:26 / {tmp_path}/g rw - cgroup2 cgroup2 rw\n",
        cgroup="0::/slice/ours\n",
        g__stat="usage_usec 5\n",
        g__slice__stat="nr_periods 9\nthrottled_usec 7\n",
        g__slice__ours__stat="throttled_usec 3\n",
    )

    assert found.read_ns() == (3_000, 7_000, 0)


def test_of_version_1_the_controller_of_the_cpu_is_read(tmp_path):
    found = machine(
        tmp_path,
        mountinfo=(
            f"30 20 0:26 / {tmp_path}/m rw - cgroup cgroup rw,memory\n"
            f"31 20 0:27 /docker/us {tmp_path}/c rw - cgroup cgroup rw,cpu,cpuacct\n"
        ),
        cgroup="3:memory:/docker/us\n2:cpu,cpuacct:/docker/us\n",
        m__stat="throttled_time 99\n",
        c__stat="nr_throttled 1\nthrottled_time 40\n",
    )

    assert found.read_ns() == (40,)


def test_the_counter_that_grew_most_counts_and_none_is_not_known():
    assert most_ns((5, 1_000), (25, 1_010)) == 20
    assert most_ns((), ()) is None


def test_a_kernel_that_tells_nothing_has_no_counters(tmp_path):
    assert Quota(proc=tmp_path).read_ns() == ()


def test_the_quota_is_read_at_both_ends_of_the_measure_phase(tmp_path):
    """The first look after each end; more than all of the time there is not, though all cores add up."""
    folder = tmp_path / "g"
    folder.mkdir()
    (folder / "cpu.stat").write_text("throttled_usec 1000\n")
    (tmp_path / "mountinfo").write_text(f"30 20 0:26 / {folder} rw - cgroup2 cgroup2 rw\n")
    (tmp_path / "cgroup").write_text("0::/\n")
    worker = Stalls(proc=tmp_path)
    worker.begin(ORDER)

    for at_ms, throttled_us in ((50, 2_000), (100, 3_000), (200, 9_000), (300, 23_000), (310, 90_000)):
        (folder / "cpu.stat").write_text(f"throttled_usec {throttled_us}\n")
        worker.woke(at_ms * MS, at_ms * MS)

    assert worker.held(has_no_lag=True).throttled_percent == 10.0
