"""What the scripted broker did with each message, and when: the truth that tables are held against.

    at_ns,deed,number,client       a line each, in the order in which it was done

    came       it was taken from this client, its publisher
    answered   the answer that completes it is about to be written: PUBACK at QoS 1, PUBCOMP at QoS 2
    sent       it is about to be written to this client, whole
    cut        so is a part of it
    heard      this client has acknowledged it for the first time: PUBACK at QoS 1, PUBREC at QoS 2
    taken      at QoS 0 this client's machine has: all bytes up to it are there
    gone       the connection of this client is over; of no message

What the broker writes is noted before, what it reads after, on CLOCK_MONOTONIC as all times of a run. So a message's
true times lie between: sent by its publisher <= came, and sent <= received by its subscriber <= heard or taken.
"""

import asyncio
import csv
import fcntl
import sys
import termios
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TextIO


class Notes(Protocol):
    """Where deeds are noted."""

    def note(self, deed: str, number: int | None, client: str | None) -> None: ...


@dataclass(frozen=True, slots=True)
class Deed:
    at_ns: int
    name: str
    number: int | None  # of the message; null where the deed is of none
    client: str


class Book:
    """Notes in a file, which is whole when the broker has ended by itself."""

    def __init__(self, file: TextIO) -> None:
        self._lines = csv.writer(file, lineterminator="\n")

    def note(self, deed: str, number: int | None, client: str | None) -> None:
        self._lines.writerow((time.monotonic_ns(), deed, number, client))


class Nothing:
    """For a broker that nobody asks."""

    def note(self, deed: str, number: int | None, client: str | None) -> None: ...


class Taking:
    """Messages that were written to a client and that nothing acknowledges but TCP."""

    def __init__(self) -> None:
        self._numbers: list[int] = []

    def add(self, number: int) -> None:
        self._numbers.append(number)

    def taken(self, transport: asyncio.Transport | None) -> list[int]:
        """Those that have arrived meanwhile, where that can be told."""
        if not self._numbers or transport is None or transport.get_write_buffer_size() or _under_way(transport):
            return []
        there, self._numbers = self._numbers, []
        return there


def _under_way(transport: asyncio.Transport) -> int:
    """Bytes that the kernel has not sent, or that the other end has not acknowledged (SIOCOUTQ of tcp(7))."""
    sock = transport.get_extra_info("socket")
    return int.from_bytes(fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(4)), sys.byteorder)


def read_deeds(path: Path) -> list[Deed]:
    with path.open(encoding="utf-8", newline="") as lines:
        return list(_deeds(csv.reader(lines)))


def _deeds(lines: Iterable[list[str]]) -> Iterable[Deed]:
    for at_ns, name, number, client in lines:
        yield Deed(int(at_ns), name, int(number) if number else None, client)
