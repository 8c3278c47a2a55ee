"""Starting and stopping, with small programs in the place of brokers."""

import os
import signal
import socket
import sys
import time

import psutil
import pytest

from brokerlab.brokers import process as process_module
from brokerlab.brokers.base import Node
from brokerlab.brokers.port import free_port
from brokerlab.brokers.process import BrokerProcess, owns_listener
from brokerlab.errors import RunError, UserError
from brokerlab.lab.proof import prove_ready

pytestmark = pytest.mark.unit
HOST = "127.0.0.1"

SLEEPS = "import time; print('up', flush=True); time.sleep(60)"
IGNORES_SIGTERM = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEPS
HAS_A_CHILD = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {IGNORES_SIGTERM!r}]); " + SLEEPS
LEAVES_A_CHILD = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {IGNORES_SIGTERM!r}])"
LISTENS = "import socket, time; s = socket.create_server(('{host}', {port})); " + SLEEPS


@pytest.fixture
def describe(tmp_path):
    """A process of a Python program, not yet started; stopped at the end in any case."""
    described = []

    def describe_program(program, **node):
        node = {"argv": (sys.executable, "-c", program), "host": HOST, "port": free_port(HOST)} | node
        described.append(BrokerProcess(Node(**node), folder=tmp_path / "broker" / str(len(described))))
        return described[-1]

    yield describe_program
    for process in described:
        process.stop()


def wait_until(condition, what):
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.01)


def is_up(process, times=1):
    return process.log.exists() and process.log_tail().count("up") == times


def running_in_session(session):
    return [pid for pid in psutil.pids() if session_of(pid) == session and is_running(pid)]


def session_of(pid):
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None


def is_running(pid):
    """Not ended, collected or not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_start_keeps_files_and_log_and_stop_ends_it(describe):
    process = describe(SLEEPS, files={"a/b.conf": "as given\n"}, env={"NAME": "value"})
    with process:
        wait_until(lambda: is_up(process), "it is up")
        assert process.is_alive()
        assert process.pids() == [process.pid]
        assert psutil.Process(process.pid).environ()["NAME"] == "value"

    assert not process.is_alive()
    assert process.exit_code == -signal.SIGTERM
    assert process.pids() == []
    assert (process.folder / "a/b.conf").read_text() == "as given\n"
    assert process.log == process.folder.parent / "0.log"


def test_program_runs_in_a_session_of_its_own(describe):
    with describe(SLEEPS) as process:
        assert os.getsid(process.pid) == process.pid


def test_program_that_ends_is_reported_with_its_log(describe):
    with describe("import sys; print('a\\nb'); sys.exit('the reason')") as process:
        wait_until(lambda: not process.is_alive(), "it ended")
        with pytest.raises(RunError, match=r"exit code 1 while waiting for proof(.|\n)*the reason") as caught:
            process.require_alive("proof")

        assert str(process.log) in caught.value.hint
        assert process.log_tail(1) == "the reason" or process.log_tail(1) == "b"


def test_program_that_is_killed_is_reported_with_the_signal(describe):
    with describe("import os; os.kill(os.getpid(), 9)") as process:
        wait_until(lambda: not process.is_alive(), "it ended")

        with pytest.raises(RunError, match="ended with signal SIGKILL"):
            process.require_alive("proof")


def test_program_that_does_not_exist_is_reported(describe):
    process = describe("", argv=("/nowhere/broker", "-c", "x.conf"))
    with process, pytest.raises(RunError, match="/nowhere/broker cannot be started: No such file"):
        prove_ready(process, process.node.host, process.node.port, deadline_s=10)


def test_program_that_ignores_sigterm_is_killed(describe, monkeypatch):
    monkeypatch.setattr(process_module, "STOP_DEADLINE_S", 0.3)
    process = describe(IGNORES_SIGTERM)
    with process:
        wait_until(lambda: is_up(process), "it is up")

    assert process.exit_code == -signal.SIGKILL


def test_children_are_seen_and_ended_with_it(describe):
    process = describe(HAS_A_CHILD)
    with process:
        wait_until(lambda: is_up(process, times=2), "both are up")
        parent, child = process.pids()

    assert parent == process.pid
    assert not is_running(child)


def test_child_that_outlives_its_parent_is_ended(describe):
    process = describe(LEAVES_A_CHILD)
    with process:
        wait_until(lambda: not process.is_alive() and is_up(process), "the child is alone")
        assert len(running_in_session(process.pid)) == 1

    assert running_in_session(process.pid) == []


def test_second_interrupt_while_stopping_kills_at_once(describe):
    process = describe(IGNORES_SIGTERM)
    process.start()
    wait_until(lambda: is_up(process), "it is up")

    def interrupt(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(KeyboardInterrupt):
            process.stop()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

    assert process.exit_code == -signal.SIGKILL
    assert not psutil.pid_exists(process.pid)


def test_interrupt_inside_the_context_stops_it(describe):
    process = describe(SLEEPS)
    with pytest.raises(KeyboardInterrupt), process:
        raise KeyboardInterrupt

    assert not psutil.pid_exists(process.pid)


def test_taken_port_is_refused_with_its_holder_and_nothing_starts(describe):
    with socket.create_server((HOST, 0)) as taken:
        process = describe(SLEEPS, port=taken.getsockname()[1])
        with pytest.raises(UserError, match=rf"in use by \S+ \(pid {os.getpid()}\)"):
            process.start()

    assert not process.is_alive()
    assert not process.folder.exists()


def test_folder_that_cannot_be_made_is_refused(describe, tmp_path):
    process = describe(SLEEPS)
    process.folder.parent.write_text("a file where the folder should be")

    with pytest.raises(RunError, match="cannot be started"):
        process.start()


def test_scratch_is_removed_and_the_rest_stays(describe):
    process = describe(SLEEPS, files={"store/data": "x", "kept.conf": "y"}, scratch=("store",))
    with process:
        assert (process.folder / "store/data").exists()

    assert [path.name for path in process.folder.iterdir()] == ["kept.conf"]


def test_start_twice_is_refused(describe):
    with describe(SLEEPS) as process, pytest.raises(ValueError, match="started already"):
        process.start()


def test_listener_of_the_process_is_its_own(describe):
    port = free_port(HOST)
    with describe(LISTENS.format(host=HOST, port=port), port=port) as process:
        wait_until(lambda: is_up(process), "it listens")

        assert owns_listener(process, HOST, port)
        assert not owns_listener(process, HOST, free_port(HOST))


def test_listener_of_a_stranger_is_not_its_own(describe):
    with describe(SLEEPS) as process, socket.create_server((HOST, 0)) as strange:
        assert not owns_listener(process, HOST, strange.getsockname()[1])


def test_log_tail_of_a_process_that_never_ran(describe):
    process = describe(SLEEPS)

    assert process.log_tail() == ""
    assert process.exit_code is None
