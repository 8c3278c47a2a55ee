"""Reads the broker's own counters while a run goes on, and holds those about the load against ours (F-26).

A difference in what the broker received makes a run invalid: then it is not known what the load was. What it sent
and dropped is held against the ledger by the pipeline, which has one.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import pyarrow as pa

from brokerlab.brokers.base import Broker, Count, Counter, Counts, Node, RunsElsewhere
from brokerlab.errors import RunError
from brokerlab.inside import enter, inside
from brokerlab.lab.tellers import Teller, teller_of
from brokerlab.load.client import Login
from brokerlab.record.directory import RunDirectory
from brokerlab.record.parts import PartWriter
from brokerlab.record.schemas import COUNTERS
from brokerlab.study.values import ABRUPT, Roles, Start, Workload

_HANDED_ON = "the nodes hand messages on to each other, and count them again"
_LOOK_S = 0.02
_MORE_S = 2.0  # that a counter may be late beyond what its driver says

# What the lab's own ledger at the end of a run has; the pipeline knows the others.
_KNOWN = (Count.RECEIVED, Count.RECEIVED_BYTES)
_GAUGES = (Count.CONNECTIONS, Count.SUBSCRIPTIONS, Count.RETAINED, Count.QUEUED)
_OUTGOING = (Count.SENT, Count.SENT_BYTES, Count.DROPPED)


def counters_of(broker: Broker) -> tuple[Counter, ...]:
    return broker.counters() if isinstance(broker, Counts) else ()


@dataclass(frozen=True, slots=True)
class Ours:
    """What we published in a run, all clients together."""

    publications: int  # without those of the proof of readiness
    payload_bytes: int  # the proof has none
    proved: int
    other_qos: tuple[int, ...] = ()  # of what was published beside the load

    def of(self, counter: Counter) -> int:
        if counter.count is Count.RECEIVED_BYTES:
            return self.payload_bytes
        return self.publications + (self.proved if counter.has_proof else 0)


def why_not(counter: Counter, workload: Workload, ours: Ours) -> str:
    """Why a counter cannot be held against our count in such a run; empty if it can."""
    absent = sorted({int(workload.qos), *ours.other_qos} - {int(qos) for qos in counter.qos})
    if counter.count in _GAUGES:
        return "we have no count of our own"
    if not counter.is_exact:
        return "it does not count single messages of the load"
    if workload.clients.behaviour in ABRUPT:
        return "clients leave without a word, so a message may be lost on its way or be sent again"
    if absent:
        return f"it leaves out QoS {' and '.join(map(str, absent))}"
    if not counter.has_retained and (workload.retain or (workload.will is not None and workload.will.retain)):
        return "it leaves out retained publications"  # such as those with which we wipe out retained wills
    if counter.count in _OUTGOING:
        return _why_not_outgoing(workload, is_proof_told=ours.proved == 1 or not counter.has_proof)
    return ""


def _why_not_outgoing(workload: Workload, *, is_proof_told: bool) -> str:
    """The ledger is of the load: what else the broker sends is not in it."""
    beside = {
        "the proof of readiness took several messages": not is_proof_told,
        "devices answer": workload.role is Roles.ECHO,
        "there is a probe": workload.probe is not None,
        "there are wills": workload.will is not None,
        "messages start the publishers": workload.start is Start.CONTROL,
    }
    return next((f"{why}: the ledger of the load does not have that" for why, is_so in beside.items() if is_so), "")


class CounterWatch:
    """Listens to a broker's counters beside the load; does nothing where there are none."""

    def __init__(
        self,
        broker: Broker,
        node: Node,
        *,
        run: RunDirectory,
        login: Login | None = None,
        number: int = 0,
        namespace: str | None = None,
        is_alone: bool = True,
    ) -> None:
        """`number` is the node's in its ensemble, whose counters say nothing of one load unless it is alone."""
        self._run, self._number, self._namespace, self._is_alone = run, number, namespace, is_alone
        self._teller: Teller | None = teller_of(broker, node, login)
        self._counters = counters_of(broker) if self._teller else ()
        self._is_required = not isinstance(broker, RunsElsewhere)  # who may not let us hear them
        self._rows: list[dict[str, object]] = []
        self._values: dict[str, float] = {}
        self._told_ns: dict[str, int] = {}
        self._failure = ""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._listen, args=(self._teller,), name="counters", daemon=True)

    def __enter__(self) -> Self:
        if self._teller:
            try:
                with inside(self._namespace):
                    self._teller.open()
            except RunError as problem:
                if self._is_required:
                    raise
                self._failure, self._teller = problem.message, None
                return self
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._teller is None:
            return
        self._over.set()
        self._thread.join()
        self._teller.close()
        writer = PartWriter(self._run.raw("counters"), f"broker-{self._number}", COUNTERS)
        if self._rows:
            writer.write(pa.RecordBatch.from_pylist(self._rows, schema=COUNTERS))
        writer.close()

    def value(self, name: str) -> float | None:
        """What the broker said last of a counter; None if it never spoke."""
        return self._values.get(name)

    def compare(self, workload: Workload, ours: Ours) -> list[str]:
        """Waits for counters that include all of the run, and says how they contradict our count."""
        if self._teller is None:
            return []
        began_ns = time.monotonic_ns()
        self._teller.hurry()
        comparable = [each for each in self._counters if not self._why_not(each, workload, ours)]
        known = {each: ours.of(each) for each in comparable if each.count in _KNOWN}
        self._settle(known, began_ns)
        self._refresh([each for each in comparable if each not in known], began_ns)
        self._over.set()  # what is told from here on is about clients that leave
        return [
            f"{each.name} of the broker is {said:g}, but our {each.count} are {expected}"
            for each, expected in known.items()
            if (said := self.value(each.name)) not in (expected, None)  # one that never spoke contradicts nothing
        ]

    def section(self, workload: Workload, ours: Ours) -> dict[str, object]:
        """For the manifest."""
        return {
            "on": self._teller.on if self._teller else None,
            "failure": self._failure or None,
            "not_comparable": {
                each.name: why for each in self._counters if (why := self._why_not(each, workload, ours))
            },
        }

    def _why_not(self, counter: Counter, workload: Workload, ours: Ours) -> str:
        return why_not(counter, workload, ours) if self._is_alone else _HANDED_ON

    def _settle(self, known: Mapping[Counter, int], began_ns: int) -> None:
        """Waits until all say what is expected, or time is up."""
        late_s = max((each.late_s for each in known), default=0.0)
        self._wait(
            lambda: all(self.value(each.name) == expected for each, expected in known.items()),
            until_ns=began_ns + int((late_s + _MORE_S) * 1e9),
        )

    def _refresh(self, counters: Sequence[Counter], began_ns: int) -> None:
        """Waits for news of counters of which nothing is expected: what they told before may have been old."""
        if self._teller is None or not counters:
            return
        waits = self._teller.waits_for_change
        # On topics only what tells of its own messages has news for sure; the others come with it.
        awaited = {each.name: 0 if waits else int(each.late_s * 1e9) for each in counters if each.has_sys or not waits}
        self._wait(
            lambda: all(self._told_ns.get(name, 0) >= began_ns + late_ns for name, late_ns in awaited.items()),
            until_ns=began_ns + int((max(each.late_s for each in counters) + _MORE_S) * 1e9),
        )

    def _wait(self, is_enough: Callable[[], bool], *, until_ns: int) -> None:
        while not is_enough() and time.monotonic_ns() < until_ns and self._thread.is_alive():
            time.sleep(_LOOK_S)

    def _listen(self, teller: Teller) -> None:
        enter(self._namespace)
        while not self._over.is_set():
            try:
                if self._take(teller):
                    self._failure = ""
            except RunError as problem:
                self._failure = problem.message
                if teller.waits_for_change:
                    return  # its connection is gone: the run's own clients say so too

    def _take(self, teller: Teller) -> bool:
        """Whether anything was told: a page is not read every time."""
        told = teller.take()
        at_ns = time.monotonic_ns()
        for name in [each.name for each in self._counters if each.name in told]:
            self._values[name], self._told_ns[name] = told[name], at_ns
            self._rows.append({"node": f"broker/{self._number}", "name": name, "at_ns": at_ns, "value": told[name]})
        return bool(told)
