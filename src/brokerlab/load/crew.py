"""The workers of one run, from outside: starts them, speaks with them, and leaves none behind.

What they run on is the runner's matter (runner.py): processes of this machine, or a job of a cluster.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from multiprocessing.connection import Connection, wait
from types import TracebackType
from typing import Self, TypeVar

from brokerlab.errors import RunError, UserError
from brokerlab.load.filters import AT_ONCE as FILTERS_AT_ONCE
from brokerlab.load.local import LocalProcesses
from brokerlab.load.opening import AT_ONCE
from brokerlab.load.runner import Runner
from brokerlab.load.spec import (
    Began,
    Connect,
    Connected,
    Drain,
    Failed,
    Go,
    Granted,
    Halt,
    Leave,
    Left,
    Progress,
    Ready,
    Retime,
    Sent,
    Settled,
    Stock,
    Stop,
    Stopped,
    Storm,
    Subscribe,
    Subscribed,
    TakeStock,
    WorkerSpec,
)

Order = Connect | Subscribe | Go | Retime | Drain | Halt | Storm | TakeStock | Leave | Stop
_Answer = TypeVar("_Answer", Ready, Connected, Subscribed, Began, Sent, Settled, Stock, Left, Stopped)

_START_S = 120.0
_STOP_S = 30.0
_LEAD_NS = 20_000_000  # between an order and what begins with it: the first connection of a ramp, a probe
_STOCK_S = 30.0


class Crew:
    """A context manager around the workers of one run."""

    def __init__(
        self, specs: Sequence[WorkerSpec], runner: Runner | None = None, *, is_delivered_at_once: bool = False
    ) -> None:
        """`is_delivered_at_once`: nobody counts deliveries, and for a window what is published has been delivered."""
        self._runner: Runner = runner or LocalProcesses()
        self._specs = tuple(specs)
        self._pipes: Mapping[str, Connection] = {}
        self._heard: dict[str, list[object]] = {spec.node: [] for spec in specs}
        self._is_delivered_at_once = is_delivered_at_once
        self._number = 0  # of the last order to go
        self.devices: dict[int, Granted] = {}  # QoS granted to each

    def __enter__(self) -> Self:
        workers = len(self._specs)
        delivered = self._places("subscribers") + tuple(map(self._heard_place, self._places("loops")))
        published = self._places("publishers", "loops")
        progress = Progress(
            published=published,
            delivered=published if self._is_delivered_at_once else delivered,
            overtaken=tuple(workers + place for place in self._places("subscribers")),
            window=2 * workers,
        )
        specs = [replace(spec, heard_index=self._heard_place(spec.index)) for spec in self._specs]
        self._pipes = self._runner.start(specs, progress)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runner.end()

    def pids(self) -> dict[str, int]:
        """The process of each node that is on this machine."""
        return self._runner.pids()

    # -- the words of spec.py -------------------------------------------------------------------------------------

    def connect(self, *, timeout_s: float) -> None:
        """Returns when every client is connected; `timeout_s` is how long one may take."""
        self._gather(self._nodes(), Ready, within_s=_START_S, waiting_for="the workers to start")
        self._tell(self._nodes(), Connect(timeout_s, time.monotonic_ns() + _LEAD_NS))
        self._gather(
            self._nodes(), Connected, within_s=self._patience_s(timeout_s), waiting_for="every client's CONNACK"
        )

    def fill(self, *, timeout_s: float) -> None:
        """Returns when the broker's table has its filters; `timeout_s` is how long one answer may take."""
        specs = [spec for spec in self._specs if spec.node.startswith("filters")]
        nodes, table = [spec.node for spec in specs], sum(spec.workload.subscriptions.table for spec in specs)
        self._tell(nodes, Subscribe(timeout_s))
        self._gather(
            nodes, Subscribed, within_s=timeout_s * (2 + table // FILTERS_AT_ONCE), waiting_for="the broker's table"
        )

    def subscribe(self, *, timeout_s: float) -> dict[int, Granted]:
        """What the broker granted, by subscriber; what devices were granted is in `devices`."""
        nodes = [node for node in self._nodes() if not node.startswith("filters")]
        self._tell(nodes, Subscribe(timeout_s))
        answers = self._gather(
            nodes, Subscribed, within_s=self._patience_s(timeout_s), waiting_for="every subscriber's SUBACK"
        )
        self.devices = {granted.subscriber: granted for answer in answers.values() for granted in answer.devices}
        return {granted.subscriber: granted for answer in answers.values() for granted in answer.granted}

    def _patience_s(self, timeout_s: float) -> float:
        """How long to wait for a worker that watches over each of its clients itself, some of them at a time."""
        most = max((len(spec.clients) for spec in self._specs), default=0)
        rates = [spec.workload.clients.connect_rate_per_s for spec in self._specs]
        every = sum(len(spec.clients) for spec in self._specs)
        ramp_s = max((every / rate_per_s for rate_per_s in rates if rate_per_s), default=0.0)
        return timeout_s * (2 + most // AT_ONCE) + ramp_s

    def go(self, order: Go) -> None:
        """Begins a schedule; what is still said of an earlier one is not heard any more."""
        self._number = order.number
        for node, said in self._heard.items():
            self._heard[node] = [each for each in said if not isinstance(each, Sent | Settled | Stock)]
        self._tell([spec.node for spec in self._specs if not self._comes_later(spec)], order)

    def began(self, *, within_s: float) -> int:
        """When the publishers that wait for a control message began; it is the same message for all of them."""
        waiting = [spec.node for spec in self._specs if spec.awaits_start]
        answers = self._gather(waiting, Began, within_s=within_s, waiting_for="the start message to arrive")
        return min(answer.start_ns for answer in answers.values())

    def retime(self, order: Go) -> None:
        """Tells all others the times that the publishers keep; who has a schedule beside theirs begins only now."""
        later = replace(order, start_ns=time.monotonic_ns() + _LEAD_NS)
        for spec in self._specs:
            self._tell([spec.node], later if self._comes_later(spec) else Retime(order))

    def halt(self) -> None:
        """Who publishes gives up what is due and not yet built."""
        self._tell([spec.node for spec in self._specs if spec.publishes], Halt())

    def storm(self) -> None:
        """All publishers and subscribers lose their connections, and come again."""
        self._tell(self._nodes("publishers") + self._nodes("subscribers"), Storm())

    def delivered(self) -> int:
        """How many messages subscribers have got so far; read while they work, so a moment old."""
        return sum(self._runner.counts[place] for place in self._places("subscribers"))

    def stock(self) -> dict[str, Stock]:
        """What each worker saw since the last order to go."""
        self._tell(self._nodes(), TakeStock())
        return self._gather(self._nodes(), Stock, within_s=_STOCK_S, waiting_for="the workers to take stock")

    def check(self) -> None:
        """Raises what went wrong in a worker, if anything did."""
        self._listen(0)

    def sent(self, *, deadline_ns: int) -> dict[int, int] | None:
        """Publications per publisher once all are handed over; None if that is not so by the deadline."""
        publishing = [spec.node for spec in self._specs if spec.publishes]
        answers = self._gather_until(publishing, Sent, deadline_ns)
        if len(answers) < len(publishing):
            return None
        return {number: count for answer in answers.values() for number, count in answer.publications}

    def settled(self, *, deadline_ns: int) -> bool:
        """Waits until everything that was published is acknowledged; whether that was before the deadline."""
        publishers = self._nodes("publishers")
        return len(self._gather_until(publishers, Settled, deadline_ns)) == len(publishers)

    def drain(self, expected: dict[str, int], *, deadline_ns: int, quiet_ns: int = 0) -> bool:
        """Waits for all acknowledgements and deliveries; whether all came before the deadline."""
        for node, count in expected.items():
            self._tell([node], Drain(count, deadline_ns, quiet_ns))
        grace_ns = 2_000_000_000  # who hears answers at the deadline at the latest
        publishing = [spec.node for spec in self._specs if spec.publishes and not spec.hears]
        hearing = [spec.node for spec in self._specs if spec.hears]
        acknowledged = self._gather_until(publishing, Settled, deadline_ns)
        heard = self._gather_until(hearing, Settled, deadline_ns + grace_ns)
        is_delivered = all(node in heard and heard[node].messages >= expected[node] for node in hearing)
        return len(acknowledged) == len(publishing) and is_delivered

    def answered(self) -> tuple[int, int]:
        """How many messages the devices have answered so far, and the bytes of their payloads."""
        places = self._places("devices")
        counts = self._runner.counts
        return sum(counts[at] for at in places), sum(counts[self._heard_place(at)] for at in places)

    def leave(self, closed: Sequence[int]) -> Left:
        """Ends the connections of publishers with wills: these without DISCONNECT, the others with."""
        self._stop_hearers()
        nodes = self._nodes("publishers")
        self._tell(nodes, Leave(tuple(closed)))
        answers = self._gather(nodes, Left, within_s=_STOP_S, waiting_for="the publishers to leave").values()
        return Left(
            tuple(each for answer in answers for each in answer.closed),
            tuple(each for answer in answers for each in answer.disconnected),
            sum(answer.wiped for answer in answers),
        )

    def stop(self) -> dict[str, Stopped]:
        """What each worker says of itself, after it disconnected and closed its files."""
        self._stop_hearers()
        return self._stop(self._nodes())

    def _stop_hearers(self) -> None:
        """Where messages were retained: publishers have the broker forget them, which who still hears would hear."""
        if any(spec.workload.retain for spec in self._specs):
            self._stop([spec.node for spec in self._specs if not spec.publishes])

    def _stop(self, nodes: Sequence[str]) -> dict[str, Stopped]:
        """The last words of these workers, some of which may have been said before."""
        self._tell([node for node in nodes if not self._has_stopped(node)], Stop())
        return self._gather(nodes, Stopped, within_s=_STOP_S, waiting_for="the workers to finish their files")

    # -- below the words ------------------------------------------------------------------------------------------

    def _nodes(self, role: str = "") -> list[str]:
        return [spec.node for spec in self._specs if spec.node.startswith(role)]

    def _places(self, *roles: str) -> tuple[int, ...]:
        return tuple(spec.index for spec in self._specs if spec.node.startswith(roles))

    def _heard_place(self, index: int) -> int:
        """Where a worker that publishes and hears counts what it hears."""
        return 2 * len(self._specs) + 1 + index

    def _comes_later(self, spec: WorkerSpec) -> bool:
        """A probe and changes of the table keep to the clock, which says nothing until the publishers have begun."""
        return spec.node.startswith(("probe", "filters")) and any(each.awaits_start for each in self._specs)

    def _tell(self, nodes: Sequence[str], order: Order) -> None:
        for node in nodes:
            try:
                self._pipes[node].send(order)
            except OSError as problem:
                self._listen(0)
                raise RunError(f"worker {node} is gone: {problem}") from problem

    def _gather(
        self, nodes: Sequence[str], kind: type[_Answer], *, within_s: float, waiting_for: str
    ) -> dict[str, _Answer]:
        answers = self._gather_until(nodes, kind, time.monotonic_ns() + int(within_s * 1e9))
        if missing := [node for node in nodes if node not in answers]:
            raise RunError(f"waited {within_s:g} s in vain for {waiting_for}; silent: {', '.join(missing)}")
        return answers

    def _gather_until(self, nodes: Sequence[str], kind: type[_Answer], deadline_ns: int) -> dict[str, _Answer]:
        """The answers of one kind that came before the deadline, by node."""
        while True:
            found = {node: answer for node in nodes for answer in self._heard[node] if isinstance(answer, kind)}
            remaining_s = (deadline_ns - time.monotonic_ns()) / 1e9
            if len(found) == len(nodes) or remaining_s <= 0:
                return found
            self._listen(remaining_s)

    def _listen(self, timeout_s: float) -> None:
        """Takes in what workers say next; a worker's failure becomes ours."""
        talking = {pipe: node for node, pipe in self._pipes.items() if not self._has_stopped(node)}
        for pipe in wait(list(talking), timeout_s):
            node = talking[pipe]  # type: ignore[index] # wait() gives back what it was given
            try:
                said = self._pipes[node].recv()
            except (EOFError, ConnectionResetError) as problem:  # its end is closed, or closed on what we said
                raise RunError(f"worker {node} died ({self._runner.obituary(node)})") from problem
            if isinstance(said, Failed):
                if said.is_ours:
                    raise RuntimeError(f"worker {node} failed:\n{said.message}")
                if said.hint is not None:
                    raise UserError(said.message, hint=said.hint)
                raise RunError(said.message)
            if not isinstance(said, Sent | Settled) or said.number == self._number:
                self._heard[node].append(said)

    def _has_stopped(self, node: str) -> bool:
        """A worker's last word; what its pipe says after that is the end of its process."""
        return any(isinstance(said, Stopped) for said in self._heard[node])
