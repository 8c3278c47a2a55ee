"""The system of a run while it goes on: a broker, as one node or several, ours or somebody's.

What of it dies or leaves on the way is noted. One node that is alone takes the run with it; of several the others go
on, bridges are laid anew around it, and the run is invalid unless that was planned.
"""

import contextlib
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from types import TracebackType
from typing import Self

from brokerlab.brokers.base import Broker, Found, Node, RunsElsewhere
from brokerlab.brokers.port import free_port
from brokerlab.brokers.registry import driver
from brokerlab.brokers.running import Reached, Running
from brokerlab.brokers.starting import Started
from brokerlab.errors import RunError
from brokerlab.lab.access import Access
from brokerlab.lab.bridged import Bridged
from brokerlab.lab.counting import counters_of
from brokerlab.lab.crossing import Door
from brokerlab.lab.disk import SmallDisk
from brokerlab.lab.ensemble import Nodes, Relaid, Setup
from brokerlab.lab.health import Departure, MemberWatch
from brokerlab.lab.proof import named, prove_ready
from brokerlab.lab.remote import broker_facts
from brokerlab.lab.stand import Stand
from brokerlab.record.directory import RunDirectory
from brokerlab.record.manifest import Manifest
from brokerlab.study.address import written_address
from brokerlab.study.ensemble_values import Join
from brokerlab.study.fault_values import DEADLY, Fault, FaultKind, nodes_of
from brokerlab.study.places import LOOPBACK
from brokerlab.study.plan import Cell
from brokerlab.study.tree import NoTreeError, hops
from brokerlab.study.values import BrokerChoice

NODE = "broker/"  # with its number it is the name of a node in the raw files


class System:
    """Use it as a context manager: it is ready when it is entered."""

    def __init__(
        self,
        cell: Cell,
        stand: Stand,
        access: Access,
        *,
        directory: RunDirectory,
        manifest: Manifest,
        faults: Sequence[Fault] = (),
        hubs: Sequence[tuple[int, str]] = (),
    ) -> None:
        """`faults` are those of the study: which nodes they may take away, and whose disk they fill.

        `hubs` are node and topic of each publisher, which may have a bridge of its own.
        """
        self._cell, self._stand, self._access = cell, stand, access
        self._directory, self._manifest, self._planned = directory, manifest, frozenset(nodes_of(faults, *DEADLY))
        self._hubs = tuple(hubs)
        self._small_disks = frozenset(nodes_of(faults, FaultKind.DISK))
        self._stack = ExitStack()
        self._nodes: Nodes | None = None
        self._departures: list[Departure] = []
        self._relaid: list[Relaid] = []
        self.cut_links: set[str] = set()  # as the faults of the run have it
        self._known_cut: frozenset[str] = frozenset()
        self._bridged: Bridged | None = None  # where bridges of ours count what they carry
        self._lost: set[int] = set()  # nodes that are dead now
        self._is_booked = False
        self.processes: list[Running] = []  # by node
        self.publications = 0  # of all proofs

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close_book()  # also of a run that came to no end
        finally:
            self._stack.close()

    @property
    def brokers(self) -> tuple[Broker, ...]:
        """The driver of each node."""
        return tuple(driver(choice.driver) for choice in self._cell.choices)

    @property
    def is_several(self) -> bool:
        return len(self.processes) > 1

    def doors(self) -> list[Door]:
        """The way to each node from where its clients are."""
        if self._nodes is not None:
            return self._nodes.doors()
        node = self.processes[0].node
        return [Door(0, node.host, node.port, named(self._access.login, node), self._stand.home(0))]

    def pids(self) -> dict[str, list[int]]:
        """The processes of each node, and of our own bridges between them, which are part of the system."""
        ours = {f"{NODE}{number}": each.pids() for number, each in enumerate(self.processes) if each.is_ours}
        joints = list(self._nodes.joints.items()) if self._nodes else []
        return ours | {f"{NODE}bridge-{'-'.join(map(str, key))}": each.pids() for key, each in joints}

    def look(self, waited_for: str) -> None:
        """Notices who has died; RunError where that was the only node, or the last."""
        if not self.is_several or self._nodes is None:
            if 0 not in self._planned:
                self.processes[0].require_alive(waited_for)
            return
        for joint in self._nodes.joints.values():
            joint.require_alive(waited_for)
        news = [
            number
            for number, each in enumerate(self._nodes.processes)
            if number not in self._lost and not each.is_alive()
        ]
        for number in news:
            why = _ending(self._nodes.processes[number].exit_code) + self.processes[number].obituary()
            self._departures.append(Departure(number, time.monotonic_ns(), why, is_dead=True))
        self._lost |= set(news)
        left = len(self.processes) - len(self._lost)
        if news and left < 1:
            self.processes[news[-1]].require_alive(waited_for)
        if self._cell.ensemble.join is Join.BRIDGE and left > 1:
            self._mend(self._nodes, self._lost, is_news=bool(news))

    def _mend(self, nodes: Nodes, lost: set[int], *, is_news: bool) -> None:
        """Lays the tree of bridges anew where a node or a link of it was lost; a network in parts has none."""
        cut = frozenset(self.cut_links)
        if is_news or (cut != self._known_cut and nodes.is_cut(lost, cut)):
            with contextlib.suppress(NoTreeError):
                self._relaid.append(nodes.lay_anew(lost, cut))
        self._known_cut = cut

    def revive(self, number: int) -> None:
        """Starts a node again, dead or alive."""
        if self._nodes is None:
            raise RunError("a broker that somebody else runs cannot be started again")
        self._lost.discard(number)
        self._nodes.revive(number, lost=self._lost)

    def keep_to(self, cores: Sequence[int]) -> None:
        """Holds the nodes to these cores, also when they are started again; somebody's broker is not ours to hold."""
        if self._nodes is not None:
            self._nodes.keep_to(cores)

    @property
    def started(self) -> list[Started]:
        """The nodes that are ours; none of somebody's broker."""
        return self._nodes.processes if self._nodes else []

    @property
    def disks(self) -> list[SmallDisk]:
        return self._nodes.disks if self._nodes else []

    def obituary(self) -> str:
        """Why the kernel ended a node; empty if it ended none."""
        return next((said for each in self.processes if (said := each.obituary())), "")

    def reasons(self) -> list[str]:
        """Why the run is invalid: nodes that left though nobody planned it."""
        unplanned = [each for each in self._departures if each.node not in self._planned]
        dead = [f"node {each.node} died in the run: {each.why}" for each in unplanned if each.is_dead]
        # Who misses somebody after a fault that was planned, or after a death, misses that node.
        missed = [f"node {each.node}: {each.why}" for each in unplanned if not each.is_dead]
        return dead or ([] if self._planned else missed)

    def close_book(self) -> None:
        """Writes down who was there and who left, once; nothing for a single node."""
        if not self.is_several or self._is_booked:
            return
        self._is_booked = True
        self._departures += self._members.stop()
        self._manifest.add(
            "members",
            {
                "told": self._members.told(),
                "departures": [
                    asdict(each) | {"is_planned": each.node in self._planned}
                    for each in sorted(self._departures, key=lambda each: each.at_ns)
                ],
            },
        )
        if self._bridged is not None:
            self._manifest.add("bridging", self._bridged.section())
        if self._relaid:
            self._manifest.add("relaid", [each.section() for each in self._relaid])

    # -- the start ------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        versions = [_found(choice).version for choice in self._cell.choices]
        if isinstance(self.brokers[0], RunsElsewhere):
            self._reach(versions[0])
            return
        nodes = self._nodes = Nodes(
            Setup(
                self._cell.ensemble,
                self._cell.choices,
                self._stand,
                self._directory.broker.absolute(),
                security=self._access.security,
                login=self._access.login,
                limits=self._cell.limits,
                prefix=self._cell.workload.topics.prefix,
                small_disks=self._small_disks,
                hubs=self._hubs,
            )
        )
        self._describe(nodes.group.nodes[0], versions[0], self._several(nodes, versions))
        if self._cell.limits:
            self._stack.callback(self._note_limits)  # when it is stopped
        self._stack.enter_context(nodes)
        self.processes = list(nodes.processes)
        crossing = nodes.crossed.publications if nodes.crossed else 0
        self.publications = sum(proof.publications for proof in nodes.proofs) + crossing
        self._note_proof(max(proof.seconds for proof in nodes.proofs))
        if self._cell.ensemble.bridging is not None:
            self._bridged = Bridged(nodes)
        if nodes.crossed:
            self._manifest.add("crossing", nodes.crossed.section())
            told = nodes.processes if self._cell.ensemble.join is Join.CLUSTER else []  # bridged nodes have no members
            self._members = self._stack.enter_context(
                MemberWatch(told, self.brokers[: len(told)], run=self._directory, prefix=NODE)
            )

    def _reach(self, version: str) -> None:
        """Somebody's broker."""
        choice, broker, folder = self._cell.broker, self.brokers[0], self._directory.broker / "0"
        node = broker.node(
            choice,
            folder=folder.absolute(),
            host=LOOPBACK.address,
            port=free_port(LOOPBACK.address),
            security=self._access.security,
        )
        self._describe(node, version, {})
        process = Reached(node)
        self.processes = [process]
        prefix = self._cell.workload.topics.prefix
        proof = prove_ready(process, node.host, node.port, login=self._access.login, prefix=prefix)
        self.publications = proof.publications
        self._note_proof(proof.seconds)

    def _describe(self, node: Node, version: str, more: dict[str, object]) -> None:
        choice, broker = self._cell.broker, self.brokers[0]
        self._manifest.add(
            "broker",
            {
                "name": choice.name,
                "driver": choice.driver,
                "preset": choice.preset,
                "options": dict(choice.options),
                "is_scalable": broker.abilities.is_scalable,
                "counters": [asdict(counter) for counter in counters_of(broker)],
            }
            | broker_facts(broker, node, version=version, login=self._access.login)
            | more,
        )

    def _several(self, nodes: Nodes, versions: list[str]) -> dict[str, object]:
        """Of each of several nodes, and how they are joined."""
        if len(nodes.group.nodes) == 1:
            return {}
        ensemble = self._cell.ensemble
        return {
            "join": str(ensemble.join),
            "bridges": [list(pair) for pair in nodes.pairs],
            "hops": hops(nodes.pairs, len(nodes.group.nodes)) if nodes.pairs else None,  # from node to node
            "nodes": [
                {
                    "node": f"{NODE}{number}",
                    "name": choice.name,
                    "driver": choice.driver,
                    "version": version,
                    "command": list(node.argv),
                    "address": written_address(node.host, node.port),
                    "place": place.name,
                    "site": place.site,
                    "namespace": place.namespace,
                }
                for number, (choice, version, node, place) in enumerate(
                    zip(self._cell.choices, versions, nodes.group.nodes, self._stand.brokers, strict=True)
                )
            ],
        }

    def _note_proof(self, seconds: float) -> None:
        limit = self.processes[0].open_files_limit()
        self._manifest.add("proof", {"publications": self.publications, "seconds": seconds, "broker_open_files": limit})

    def _note_limits(self) -> None:
        sections = [each.cage.section() for each in self._nodes.processes] if self._nodes else []
        if sections:
            self._manifest.add("limits", sections[0] | ({"nodes": sections} if len(sections) > 1 else {}))


def _found(choice: BrokerChoice) -> Found:
    found = driver(choice.driver).find()
    if not isinstance(found, Found):
        raise RunError(f"{choice.driver} is gone from this machine: {found.reason}", hint=found.hint)
    return found


def _ending(code: int | None) -> str:
    if code is None or code >= 0:
        return f"it ended with exit code {code}"
    return f"it ended by signal {-code}"
