"""A thread goes into a network namespace and comes back."""

import os
import socket
import subprocess
from collections.abc import Iterator

import pytest

from brokerlab.errors import RunError
from brokerlab.inside import enter, inside

NAME = f"bl-test-{os.getpid()}"


def own() -> str:
    return os.readlink("/proc/thread-self/ns/net")  # noqa: PTH115 - what it reads is no path


@pytest.fixture(scope="module")
def namespace() -> Iterator[str]:
    if os.geteuid() != 0:
        pytest.skip("network namespaces need root")
    made = subprocess.run(["ip", "netns", "add", NAME], check=False, capture_output=True, text=True)
    if made.returncode != 0:
        pytest.skip(f"no network namespaces here: {made.stderr.strip()}")
    yield NAME
    subprocess.run(["ip", "netns", "delete", NAME], check=True)


def test_a_socket_belongs_to_the_namespace_of_its_thread(namespace: str) -> None:
    before = own()
    with inside(namespace), socket.socket() as listener:
        assert own() != before
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)  # what it starts is born there
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        address = listener.getsockname()
        socket.create_connection(address, timeout=5).close()
    assert own() == before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, timeout=5)


def test_comes_back_after_an_error(namespace: str) -> None:
    before = own()
    with pytest.raises(ValueError, match="on purpose"), inside(namespace):
        raise ValueError("on purpose")
    assert own() == before


def test_one_that_is_not_there_is_named() -> None:
    with pytest.raises(RunError, match="bl-nowhere"):
        enter("bl-nowhere")


def test_none_is_ones_own() -> None:
    before = own()
    with inside(None):
        assert own() == before
    enter(None)
    assert own() == before
