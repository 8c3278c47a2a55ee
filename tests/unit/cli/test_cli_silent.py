"""An address that drops what is sent to it, SYN included: one clear message in bounded time."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_program import STUDY, Program

pytestmark = pytest.mark.unit
BRIDGE = """\
bridge: 1
brokers: {here: {address: "127.0.0.1:%d"}, there: {address: "127.0.0.1:%d"}}
routes: {up: {from: here, to: there, subscribe: "t/#"}}
"""


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A listener whose queue is full and that accepts nobody: Linux drops further SYNs (listen(2))."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        waiting = [socket.socket() for _ in range(3)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(server.getsockname())
        with pytest.raises(TimeoutError):
            socket.create_connection(server.getsockname(), timeout=0.5)
        yield server.getsockname()[1]
        for each in waiting:
            each.close()


def test_a_bridge_gives_up_when_it_is_told_to_and_names_who_is_silent(
    brokerlab: Program, tmp_path: Path, silent_port: int
) -> None:
    (tmp_path / "b.yaml").write_text(BRIDGE % (silent_port, silent_port))

    done = brokerlab("bridge", str(tmp_path / "b.yaml"), "--within", "0.3")

    assert done.returncode == 64
    assert f"not joined in 0.3 s: here (127.0.0.1:{silent_port}): no answer" in done.stderr


def test_a_study_of_somebodys_broker_is_refused_before_its_first_run(
    brokerlab: Program, tmp_path: Path, silent_port: int
) -> None:
    remote = f'{{embedded: {{driver: remote, options: {{address: "127.0.0.1:{silent_port}"}}}}}}'
    (tmp_path / "s.yaml").write_text(STUDY.replace("{embedded: {driver: amqtt}}", remote))

    began = time.monotonic()
    done = brokerlab("run", str(tmp_path / "s.yaml"), "--out", str(tmp_path / "out"))

    assert done.returncode == 64, done.stderr
    assert f"127.0.0.1:{silent_port}: connecting failed: timed out" in done.stderr
    assert "Traceback" not in done.stderr
    assert time.monotonic() - began < 60, "three attempts of five seconds, and starting"
