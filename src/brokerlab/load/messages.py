"""What the messages of a publisher look like on the wire: whole blocks of packets from intended times.

messages_of(client, workload, ...)  the one place that knows which kind of messages a workload asks for
build(first_seq, intended_ns)       the packets of consecutive messages
"""

import random
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from brokerlab.load import wire
from brokerlab.load.spec import Client
from brokerlab.study.values import Workload

Longs = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Block:
    """Consecutive packets of equal length."""

    data: memoryview
    stride: int  # bytes of each


class Messages(Protocol):
    """Builds the messages of one publisher; message `seq` looks the same however the blocks are cut."""

    @property
    def largest(self) -> int:
        """Bytes of the longest packet."""
        ...

    def build(self, first_seq: int, intended_ns: Longs) -> Block: ...


class EqualMessages:
    """Messages that differ in their identity alone: one template, and a compiled loop that fills it in."""

    __slots__ = ("_id_at", "_payload_at", "_publisher", "_template")

    def __init__(self, client: Client, workload: Workload, *, seed: int, level: int) -> None:
        # Filler that does not compress, the same for the same seed; nothing secret depends on it.
        filler = random.Random(f"{seed}/{client.number}").randbytes(  # noqa: S311
            max(0, workload.payload_bytes - wire.IDENTITY_BYTES)
        )
        self._publisher = client.number
        self._template, self._id_at, self._payload_at = wire.publish_template(
            client.topic, payload_bytes=workload.payload_bytes, qos=workload.qos, retain=False, filler=filler,
            properties=b"" if level == 5 else None,
        )  # fmt: skip

    @property
    def largest(self) -> int:
        return self._template.size

    def build(self, first_seq: int, intended_ns: Longs) -> Block:
        out = np.empty(intended_ns.size * self._template.size, dtype=np.uint8)
        wire.build_publishes(
            self._template, self._id_at, self._payload_at, self._publisher, first_seq, intended_ns, out
        )
        return Block(memoryview(out.data), self._template.size)


def messages_of(client: Client, workload: Workload, *, seed: int, level: int) -> Messages:
    """The messages that the workload asks of this publisher; `level` is that of the protocol."""
    return EqualMessages(client, workload, seed=seed, level=level)
