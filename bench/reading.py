"""What the subscribers of a tool have really read, as the kernel tells: bytes received less those still unread (ss(8)).

Mosquitto counts a message as sent when it queues it. Before publishers that flood, its queue grows faster than the
subscribers read, and its counter shows twice of what they get; so it is not asked.
"""

import re
import subprocess
import time
from collections.abc import Callable

from bench.broker import HOST, PAYLOAD_BYTES, Span
from brokerlab.load.client import Client
from brokerlab.load.packets import encode_length

_LONGEST_WAIT_S = 30.0
_LOOK_S = 0.1
_FIRST = 100  # deliveries, after which the tool is at work
_PUBREL_BYTES = 4
_SENT, _RECEIVED = re.compile(r"bytes_sent:(\d+)"), re.compile(r"bytes_received:(\d+)")


class NothingReadError(Exception):
    """The tool does not deliver what it was told to."""


def measured(port: int, cpu_s: Callable[[], float], *, qos: int, level: int, settle_s: float, seconds: float) -> Span:
    """Deliveries and CPU time over `seconds`, from `settle_s` after the first deliveries on.

    `level` is the protocol level that the tool's subscribers speak.
    """
    each = delivery_bytes(_topic(port), qos=qos, level=level)
    deadline = time.monotonic() + _LONGEST_WAIT_S
    while read_bytes(port) < _FIRST * each:
        if time.monotonic() > deadline:
            raise NothingReadError(f"no subscriber read anything within {_LONGEST_WAIT_S:g} s")
        time.sleep(_LOOK_S)
    time.sleep(settle_s)
    before = (time.monotonic(), read_bytes(port), cpu_s())
    time.sleep(seconds)
    after = (time.monotonic(), read_bytes(port), cpu_s())
    if after[1] == before[1]:
        raise NothingReadError(f"no subscriber read anything for {seconds:g} s")
    return Span((after[1] - before[1]) / each, after[0] - before[0], after[2] - before[2])


def delivery_bytes(topic: str, *, qos: int, level: int) -> int:
    """What a message takes on the subscriber's connection: PUBLISH, and at QoS 2 the PUBREL that follows it."""
    body = 2 + len(topic.encode()) + (2 if qos else 0) + (1 if level == 5 else 0) + PAYLOAD_BYTES
    return 1 + len(encode_length(body)) + body + (_PUBREL_BYTES if qos == 2 else 0)


def read_bytes(port: int) -> int:
    """By all clients of the broker that got more than they sent: publishers get acknowledgements at most."""
    ask = ["ss", "--tcp", "--info", "--numeric", "--no-header", "--oneline", "dst", f"{HOST}:{port}"]
    total = 0
    for line in subprocess.run(ask, capture_output=True, text=True, check=True).stdout.splitlines():
        sent, received = _SENT.search(line), _RECEIVED.search(line)
        if received is not None and (sent is None or int(received[1]) > int(sent[1])):
            total += int(received[1]) - int(line.split()[1])
    return total


def _topic(port: int) -> str:
    """The topic that the tool publishes to; the broker's clients all use one, or several of equal length."""
    with Client(HOST, port) as client:
        client.subscribe("#", 0)
        message = client.receive(timeout_s=_LONGEST_WAIT_S)
    if message is None:
        raise NothingReadError(f"nothing was published within {_LONGEST_WAIT_S:g} s")
    return message.topic
