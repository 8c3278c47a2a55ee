"""The counts of interfaces: bytes and packets that came in and went out, from /proc/net/dev of each namespace.

The file is opened once inside the namespace, and read again from its beginning: the kernel counts anew every time.
"""

import os
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Self

from brokerlab.inside import inside
from brokerlab.network.layout import Host

_LONGEST_BYTES = 65_536
_LOOPBACK = "lo"
# Places of the counts after the name, proc(5).
_RX_BYTES, _RX_PACKETS, _RX_DROPPED, _TX_BYTES, _TX_PACKETS, _TX_DROPPED = 0, 1, 3, 8, 9, 11


class Interfaces:
    """A context manager that can read the counts of some hosts."""

    def __init__(self, hosts: Iterable[Host]) -> None:
        self._hosts = list(hosts)
        self._files: dict[str, int] = {}

    def __enter__(self) -> Self:
        for host in self._hosts:
            with inside(host.namespace):
                self._files[host.name] = os.open("/proc/thread-self/net/dev", os.O_RDONLY | os.O_CLOEXEC)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._files:
            os.close(self._files.popitem()[1])

    def read(self, at_ns: int) -> Iterator[dict[str, object]]:
        """Rows of record.schemas.INTERFACES."""
        for node, file in self._files.items():
            for interface, counts in parse(os.pread(file, _LONGEST_BYTES, 0).decode("ascii")):
                yield {
                    "node": node,
                    "interface": interface,
                    "at_ns": at_ns,
                    "rx_bytes": counts[_RX_BYTES],
                    "rx_packets": counts[_RX_PACKETS],
                    "rx_dropped": counts[_RX_DROPPED],
                    "tx_bytes": counts[_TX_BYTES],
                    "tx_packets": counts[_TX_PACKETS],
                    "tx_dropped": counts[_TX_DROPPED],
                }


def parse(text: str) -> Iterator[tuple[str, list[int]]]:
    """Name and counts of every interface but loopback."""
    for line in text.splitlines()[2:]:
        name, _, counts = line.partition(":")
        if name.strip() != _LOOPBACK:
            yield name.strip(), [int(each) for each in counts.split()]
