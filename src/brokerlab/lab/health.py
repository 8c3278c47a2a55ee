"""Asks the nodes of an ensemble, about once a second, how many of them there are, where brokers tell that.

What they say goes to the counters of the run, under the name "members".
"""

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import pyarrow as pa

from brokerlab.brokers.base import Broker, TellsMembers
from brokerlab.brokers.starting import Started
from brokerlab.inside import enter
from brokerlab.record.directory import RunDirectory
from brokerlab.record.parts import PartWriter
from brokerlab.record.schemas import COUNTERS

NAME = "members"
PERIOD_S = 1.0


@dataclass(frozen=True, slots=True)
class Departure:
    """A node that is not there any more, or not for the others."""

    node: int
    at_ns: int
    why: str
    is_dead: bool = False  # its process ended; otherwise others say that it left


@dataclass(frozen=True, slots=True)
class Told:
    node: int
    at_ns: int
    members: int | None  # None: it did not answer


class MemberWatch:
    """One thread for each node that tells; each is in its node's namespace."""

    def __init__(
        self, processes: Sequence[Started], brokers: Sequence[Broker], *, run: RunDirectory, prefix: str
    ) -> None:
        self._run, self._prefix, self._count = run, prefix, len(processes)
        self._over = threading.Event()
        self._said: list[Told] = []  # appended by all threads
        self._threads = [
            threading.Thread(target=self._ask, args=(number, process, broker), name=f"members {number}", daemon=True)
            for number, (process, broker) in enumerate(zip(processes, brokers, strict=True))
            if isinstance(broker, TellsMembers)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        rows = [
            {"node": f"{self._prefix}{each.node}", "name": NAME, "at_ns": each.at_ns, "value": float(each.members)}
            for each in self._said
            if each.members is not None
        ]
        if rows:
            writer = PartWriter(self._run.raw("counters"), NAME, COUNTERS)
            writer.write(pa.RecordBatch.from_pylist(rows, schema=COUNTERS))
            writer.close()

    def stop(self) -> list[Departure]:
        """Asks no more; the first time each node saw fewer than all, if it ever did after it had seen all."""
        self._over.set()
        for thread in self._threads:
            thread.join()
        return missed(self._said, self._count)

    def told(self) -> dict[str, dict[str, int]]:
        """By node: how often it was asked, did not answer, and the fewest and most that it said."""
        told = {}
        for node in sorted({each.node for each in self._said}):
            own = [each.members for each in self._said if each.node == node]
            known = [members for members in own if members is not None]
            told[f"{self._prefix}{node}"] = {"asked": len(own), "unanswered": len(own) - len(known)} | (
                {"fewest": min(known), "most": max(known)} if known else {}
            )
        return told

    def _ask(self, number: int, process: Started, broker: TellsMembers) -> None:
        enter(process.namespace)
        while not self._over.is_set() and process.is_alive():
            self._said.append(Told(number, time.monotonic_ns(), broker.members(process.node)))
            self._over.wait(PERIOD_S)


def missed(said: Sequence[Told], count: int) -> list[Departure]:
    """For each node the first time that it saw fewer members than it had seen before."""
    departures = []
    for node in sorted({each.node for each in said}):
        most = 0
        for each in (one for one in said if one.node == node and one.members is not None):
            members = each.members or 0
            if members < most:
                why = f"it saw {members} members of {count}, after it had seen {most}"
                departures.append(Departure(node, each.at_ns, why))
                break
            most = max(most, members)
    return departures
