import os
import threading
import time

import pyarrow.parquet as pq
import pytest

from brokerlab.lab.sampling import Sampler, read_process
from brokerlab.record.directory import RunDirectory

pytestmark = pytest.mark.unit


def test_a_process_that_works_uses_cpu_time():
    before = read_process("us", os.getpid(), 0)
    busy_until = time.process_time() + 0.2
    while time.process_time() < busy_until:
        pass
    after = read_process("us", os.getpid(), 1)

    assert after["cpu_ns"] - before["cpu_ns"] >= 150_000_000
    assert after["rss_bytes"] > 1 << 20


def test_threads_and_open_files_are_counted():
    before = read_process("us", os.getpid(), 0)
    counted = len(os.listdir("/proc/self/task"))  # noqa: PTH208 - before the thread: one that was joined may linger
    is_over = threading.Event()
    thread = threading.Thread(target=is_over.wait)
    thread.start()
    with open(os.devnull, encoding="ascii"), open(os.devnull, encoding="ascii"):  # noqa: PTH123
        after = read_process("us", os.getpid(), 1)
    is_over.set()
    thread.join()

    assert after["threads"] == before["threads"] + 1 == counted + 1
    assert after["open_files"] == before["open_files"] + 2


def test_a_process_that_is_gone_leaves_no_row():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)

    assert read_process("gone", pid, 0) is None


def test_marks_stand_for_the_time_that_they_are_given(tmp_path):
    run = RunDirectory(tmp_path)

    with Sampler(lambda: {"us": [os.getpid()]}, run) as sampler:
        sampler.mark(12)
        sampler.mark(34)

    table = pq.read_table(run.files("resources")[0])
    assert {12, 34} <= set(table["at_ns"].to_pylist())
