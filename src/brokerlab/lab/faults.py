"""Does to the system what a study plans, while it is measured, and writes down when.

A fault begins at its time, or when enough has been delivered, as soon as the lab looks after that; the time in the
manifest is the one at which it was done. What lasts ends after its time, or with the run. Everything is by the number
of a process of ours, or by the name of a link of ours.
"""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial

import psutil

from brokerlab.brokers.starting import Started
from brokerlab.errors import RunError
from brokerlab.lab.system import System
from brokerlab.load.crew import Crew
from brokerlab.network.network import Network
from brokerlab.record.manifest import Manifest
from brokerlab.study.fault_values import Fault, FaultKind
from brokerlab.study.faults import schedule_of
from brokerlab.study.plan import PlannedRun
from brokerlab.study.replay import measure_s
from brokerlab.study.topology import link_names
from brokerlab.study.values import Study

_LATE_S = 3.0  # behind its plan a fault is another one: clients and nodes are in another state then
_STANDSTILL_S = 1.0
_STILL = (psutil.STATUS_STOPPED, psutil.STATUS_TRACING_STOP, psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)


@dataclass(slots=True)
class Struck:
    """A fault that was done."""

    fault: Fault
    at_ns: int
    end_ns: int | None = None  # None: it lasted until the end of the run, or does not last at all
    undo: Callable[[], None] | None = None

    def section(self, number: int) -> dict[str, object]:
        return {
            "fault": number,
            "kind": self.fault.kind.value,
            "node": self.fault.node,
            "target": self.fault.target,
            "asked": asdict(self.fault),
            "at_ns": self.at_ns,
            "end_ns": self.end_ns,
        }


def faults_of(run: PlannedRun, study: Study) -> tuple[Fault, ...]:
    """What is done in a run, by time."""
    cell, nodes = run.cell, run.cell.ensemble.nodes
    return schedule_of(
        cell.faults,
        seed=run.seed,
        nodes=nodes,
        links=() if cell.topology.is_loopback else link_names(cell.topology, nodes=nodes),
        measure_s=measure_s(cell.workload, study.deploy.phases),
    )


def all_sent(crew: Crew, end_ns: int, drain_ns: int, *, is_planned: bool) -> dict[int, int] | None:
    """Publications per publisher; what is due at a node that a fault took away is given up after half of drain."""
    if not is_planned:
        return crew.sent(deadline_ns=drain_ns)
    publications = crew.sent(deadline_ns=(end_ns + drain_ns) // 2)
    if publications is None:
        crew.halt()
        publications = crew.sent(deadline_ns=drain_ns)
    return publications


class Faults:
    """The schedule of faults of one run."""

    def __init__(
        self,
        schedule: Sequence[Fault],
        system: System,
        *,
        crew: Crew,
        network: Network | None,
        manifest: Manifest,
    ) -> None:
        self._planned, self._waiting = tuple(schedule), list(schedule)
        self._system, self._processes, self._disks = system, system.started, system.disks
        self._crew, self._network = crew, network
        self.struck: list[Struck] = []
        self._measure_ns = 0
        self._manifest, self._is_closed = manifest, False

    def __bool__(self) -> bool:
        return bool(self._planned)

    def begin(self, measure_ns: int) -> None:
        self._measure_ns = measure_ns

    def pause_s(self, longest_s: float) -> float:
        """How long to wait until something is to be done; conditions are looked at whenever the lab looks."""
        if not self._measure_ns:
            return longest_s
        begins = [self._due_ns(each) for each in self._waiting if each.delivered is None]
        ends = [end_ns for each in self.struck if (end_ns := self._over_ns(each)) is not None]
        next_ns = min([*begins, *ends], default=None)
        return longest_s if next_ns is None else max(0.0, min(longest_s, (next_ns - time.monotonic_ns()) / 1e9))

    def tick(self, now: int) -> None:
        """Does what is due, and undoes what is over."""
        if not self._measure_ns or now < self._measure_ns:
            return
        for struck in self.struck:
            over_ns = self._over_ns(struck)
            if over_ns is not None and over_ns <= now:
                self._undo(struck)
        for fault in [each for each in self._waiting if self._is_due(each, now)]:
            self._waiting.remove(fault)
            self.struck.append(self._strike(fault))

    def close(self) -> None:
        """Undoes what still lasts, so that everything can be stopped, and writes down what was done; once."""
        if self._is_closed or not self._planned:
            return
        self._is_closed = True
        cut = set(self._system.cut_links)
        for struck in self.struck:
            if struck.undo is not None:
                self._undo(struck)
        self._system.cut_links.update(cut)  # nothing is to be mended any more
        done = [struck.section(number) for number, struck in enumerate(self.struck, start=1)]
        self._manifest.add("faults", done)

    def missed(self) -> list[str]:
        """Those that were not done, or much later than planned: what went before them took too long."""
        never = [
            f"{each.kind} of {each.target} was never done: "
            + (f"{each.delivered} messages were not delivered" if each.delivered is not None else "the run was over")
            for each in self._waiting
        ]
        late = [
            f"{each.fault.kind} of {each.fault.target} was done {late_s:.1f} s late: the one before it took so long"
            for each in self.struck
            if each.fault.delivered is None and (late_s := (each.at_ns - self._due_ns(each.fault)) / 1e9) > _LATE_S
        ]
        return never + late

    # -- when -----------------------------------------------------------------------------------------------------

    def _due_ns(self, fault: Fault) -> int:
        return self._measure_ns + int(fault.at_s * 1e9)

    def _is_due(self, fault: Fault, now: int) -> bool:
        if fault.delivered is not None:
            return self._crew.delivered() >= fault.delivered
        return self._due_ns(fault) <= now

    def _over_ns(self, struck: Struck) -> int | None:
        if struck.undo is None or struck.fault.for_s is None:
            return None
        return struck.at_ns + int(struck.fault.for_s * 1e9)

    # -- what -----------------------------------------------------------------------------------------------------

    def _strike(self, fault: Fault) -> Struck:
        undo: Callable[[], None] | None = None
        at_ns = time.monotonic_ns()
        match fault.kind:
            case FaultKind.KILL:
                at_ns = self._signal(fault, signal.SIGKILL)
            case FaultKind.RESTART:
                at_ns = self._signal(fault, signal.SIGKILL)  # to start it again takes longer than to end it
                self._system.revive(fault.node or 0)
            case FaultKind.STOP:
                self._signal(fault, signal.SIGSTOP)
                undo = partial(self._go_on, fault)
                at_ns = self._stood_still_ns(fault)
            case FaultKind.FILES:
                undo = self._exhaust_files(fault)
            case FaultKind.DISK:
                undo = self._fill_disks(fault)
            case FaultKind.STORM:
                self._crew.storm()
            case _:
                undo = self._change_links(fault)
        return Struck(fault, at_ns, undo=undo)

    def _undo(self, struck: Struck) -> None:
        if struck.undo is not None:
            struck.undo()
        struck.undo, struck.end_ns = None, time.monotonic_ns()

    def _process(self, fault: Fault) -> Started:
        return self._processes[fault.node or 0]

    def _signal(self, fault: Fault, number: signal.Signals) -> int:
        """When it was sent; to the leader first, so that nobody sees its children die before it."""
        pids = self._process(fault).pids()
        at_ns = time.monotonic_ns()
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        return at_ns

    def _stood_still_ns(self, fault: Fault) -> int:
        """When all its processes had stopped: on a busy machine one still answers after the signal was sent."""
        deadline_ns = time.monotonic_ns() + int(_STANDSTILL_S * 1e9)
        for pid in self._process(fault).pids():
            with contextlib.suppress(psutil.NoSuchProcess):
                process = psutil.Process(pid)
                while process.status() not in _STILL and time.monotonic_ns() < deadline_ns:
                    time.sleep(0.000_2)
        return time.monotonic_ns()

    def _go_on(self, fault: Fault) -> None:
        self._signal(fault, signal.SIGCONT)

    def _exhaust_files(self, fault: Fault) -> Callable[[], None]:
        """Lowers the limit of each process of the node to what it has open now."""
        before: list[tuple[psutil.Process, tuple[int, int]]] = []
        for pid in self._process(fault).pids():
            with contextlib.suppress(psutil.NoSuchProcess):
                process = psutil.Process(pid)
                limits = process.rlimit(psutil.RLIMIT_NOFILE)
                process.rlimit(psutil.RLIMIT_NOFILE, (min(process.num_fds(), limits[0]), limits[1]))
                before.append((process, limits))

        def undo() -> None:
            for process, limits in before:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.rlimit(psutil.RLIMIT_NOFILE, limits)

        return undo

    def _fill_disks(self, fault: Fault) -> Callable[[], None]:
        disks = [disk for disk in self._disks if disk.node == fault.node]
        if not disks:
            raise RunError(
                f"node {fault.node} writes to no folder of its own, so none can be filled",
                hint="take a preset that writes, such as durable",
            )
        for disk in disks:
            disk.fill()

        def undo() -> None:
            for disk in disks:
                disk.clear()

        return undo

    def _change_links(self, fault: Fault) -> Callable[[], None]:
        network = self._network
        if network is None:
            raise RunError(f"{fault.kind} needs a network of ours")
        if fault.kind is FaultKind.SLOW and fault.link and fault.claim:
            before = network.link(fault.link)
            network.change(fault.link, fault.claim)
            return lambda: network.change(str(fault.link), before)
        cables = network.cables_around(fault.sites) if fault.sites else (str(fault.link),)
        for cable in cables:
            network.cut(cable)
        self._system.cut_links.update(cables)

        def undo() -> None:
            self._system.cut_links.difference_update(cables)
            for cable in cables:
                network.cut(cable, is_cut=False)

        return undo
