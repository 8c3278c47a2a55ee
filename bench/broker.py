"""The Mosquitto that every tool is measured through, and what it says that it delivered."""

import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from brokerlab.brokers.base import Node
from brokerlab.brokers.port import free_port
from brokerlab.brokers.process import BrokerProcess
from brokerlab.lab.proof import prove_ready
from brokerlab.load.client import Client

HOST = "127.0.0.1"
PAYLOAD_BYTES = 64
# Nothing is dropped, nothing waits for Nagle: otherwise the broker's limits are measured, not the clients.
CONFIG = """\
listener {port} 127.0.0.1
allow_anonymous true
user root
max_queued_messages 0
max_inflight_messages 1000
max_connections -1
set_tcp_nodelay true
sys_interval 1
"""
# Its counter of messages leaves QoS 2 out, that of payload bytes does not.
_SENT_BYTES = "$SYS/broker/publish/bytes/sent"
_LONGEST_WAIT_S = 30.0


@dataclass(frozen=True, slots=True)
class Span:
    """What a tool did between two words of the broker's counter."""

    deliveries: float
    seconds: float
    cpu_s: float


@contextmanager
def broker(folder: Path, *, config: str = CONFIG) -> Iterator[BrokerProcess]:
    program = shutil.which("mosquitto", path=os.environ["PATH"] + ":/usr/sbin")
    if program is None:
        sys.exit("bench: mosquitto is not here: apt-get install mosquitto mosquitto-clients")
    port = free_port(HOST)
    node = Node((program, "-c", "bench.conf"), HOST, port, {"bench.conf": config.format(port=port)})
    with BrokerProcess(node, folder=folder / "broker") as process:
        prove_ready(process, HOST, port)
        yield process


def measured(port: int, cpu_s: Callable[[], float], *, settle_s: float, seconds: float) -> Span:
    """Watches the broker's counter from `settle_s` after the first delivery on, for `seconds` or a little longer.

    It counts what the broker queues: right where nobody floods it, as behind a bridge.

    CPU time is read whenever the counter speaks, so that both are of the same time.
    """
    with Client(HOST, port) as client:
        client.subscribe(_SENT_BYTES, 0)
        words = _words(client, cpu_s)
        first = next(words)
        while (word := next(words))[1] - first[1] < PAYLOAD_BYTES * 100:
            pass  # nothing delivered yet
        began = word
        while (word := next(words))[0] - began[0] < settle_s:
            pass
        start = word
        while (word := next(words))[0] - start[0] < seconds:
            pass
    return Span((word[1] - start[1]) / PAYLOAD_BYTES, word[0] - start[0], word[2] - start[2])


def _words(client: Client, cpu_s: Callable[[], float]) -> Iterator[tuple[float, float, float]]:
    """(when, bytes sent, CPU seconds of the tool) at each word of the counter."""
    deadline = time.monotonic() + _LONGEST_WAIT_S
    while time.monotonic() < deadline:
        message = client.receive(timeout_s=1)
        if message is not None:
            yield time.monotonic(), float(message.payload), cpu_s()
    sys.exit(f"bench: the tool was not done within {_LONGEST_WAIT_S:g} s")
