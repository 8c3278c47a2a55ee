"""The nodes of one broker, or of several that are joined: starts them, joins them, proves that messages cross.

    alone      one node, proved ready
    cluster    the driver says how its nodes find each other; together or one by one, as it wants
    bridge     along a tree of pairs (study/tree.py): by the brokers' own bridges between their like, by ours else

Whatever fails on the way undoes all of it. Start it from a thread that lives as long as the nodes should.
"""

import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from brokerlab.brokers.base import OPEN, Bridges, Broker, Clusters, Group, Node, Peer, Seat, Security
from brokerlab.brokers.process import BrokerProcess, owns_listener
from brokerlab.brokers.registry import driver
from brokerlab.brokers.starting import Started, process_of
from brokerlab.errors import RunError, UserError
from brokerlab.inside import inside
from brokerlab.lab.cores import hold
from brokerlab.lab.crossing import Crossed, Door, NotCrossedError, prove_crossings
from brokerlab.lab.disk import SmallDisk
from brokerlab.lab.joints import Span, await_joined, joint_process, spans_of
from brokerlab.lab.proof import Proof, named, prove_ready
from brokerlab.lab.seating import join_group, seats_of
from brokerlab.lab.stand import Stand
from brokerlab.load.client import Login
from brokerlab.study.ensemble_values import BridgeShape, Ensemble, Join
from brokerlab.study.limit_values import UNLIMITED, Limits
from brokerlab.study.tree import Pair, chain, loop_in, mesh, spanning_tree, star
from brokerlab.study.values import BrokerChoice, Qos

_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Setup:
    """What is to be started, and where."""

    ensemble: Ensemble
    choices: tuple[BrokerChoice, ...]  # by node
    stand: Stand
    folder: Path  # of all nodes: each has one below it, by its number
    security: Security = OPEN
    login: Login = field(default_factory=Login)  # of the lab's own clients
    limits: Limits = UNLIMITED  # of each node
    prefix: str = ""  # before every topic of ours
    small_disks: frozenset[int] = frozenset()  # nodes whose data are on a disk that can be filled
    hubs: tuple[tuple[int, str], ...] = ()  # node and topic of each publisher

    @property
    def drivers(self) -> tuple[Broker, ...]:
        return tuple(driver(choice.driver) for choice in self.choices)

    @property
    def pairs(self) -> tuple[Pair, ...]:
        """The bridges; none where nodes are not bridged."""
        return bridges_of(self.ensemble, self.stand.costs) if self.ensemble.join is Join.BRIDGE else ()

    def openers(self, pairs: Sequence[Pair]) -> dict[Pair, int | None]:
        return openers(pairs, self.drivers, is_ours=self.ensemble.bridging is not None)

    def spans(self, pair: Pair) -> list[Span]:
        """The bridges of ours between two nodes."""
        return spans_of(pair, self.ensemble, self.hubs, prefix=self.prefix)

    @property
    def bridge_limits(self) -> Limits:
        """Of each bridge of ours: an equal part of what all have together (X-09)."""
        if self.ensemble.bridging is None or not self.ensemble.bridging.limits:
            return UNLIMITED
        limits, count = self.ensemble.bridging.limits, sum(len(self.spans(pair)) for pair in self.pairs)
        cpus = None if limits.cpus is None else limits.cpus / count
        memory_bytes = None if limits.memory_bytes is None else limits.memory_bytes // count
        return replace(limits, cpus=cpus, memory_bytes=memory_bytes)


def bridges_of(ensemble: Ensemble, costs: Mapping[Pair, float]) -> tuple[Pair, ...]:
    """The pairs of nodes that are bridged."""
    nodes = ensemble.nodes
    match ensemble.bridges:
        case BridgeShape.TREE:
            return spanning_tree(range(nodes), costs or mesh(nodes))
        case BridgeShape.STAR:
            return star(nodes)
        case BridgeShape.CHAIN:
            return chain(nodes)
    return ensemble.bridges


def openers(pairs: Sequence[Pair], drivers: Sequence[Broker], *, is_ours: bool = False) -> dict[Pair, int | None]:
    """Which end of each pair opens the bridge, the higher number; None: a process of ours joins them.

    A broker's own bridge is laid to its like only: how it knows its own messages again is between the two of them
    (Mosquitto says it in the version of its CONNECT), and a stranger sends them back.
    """
    return {pair: None if is_ours else _opener(pair, drivers) for pair in pairs}


def _opener(pair: Pair, drivers: Sequence[Broker]) -> int | None:
    one, other = (drivers[number] for number in pair)
    is_alike = one.name.partition("@")[0] == other.name.partition("@")[0]
    return pair[1] if is_alike and isinstance(other, Bridges) else None


@dataclass(frozen=True, slots=True)
class Relaid:
    """A tree that was laid anew because nodes or links were lost, or came back."""

    at_ns: int
    lost: tuple[int, ...]
    cut: tuple[str, ...]  # links between routers
    pairs: tuple[Pair, ...]  # the whole tree
    laid: tuple[Pair, ...]  # what is new of it
    laid_s: float  # until the new bridges were connected
    crossed_s: float  # until messages of every node had reached every other
    crossed: Crossed

    def section(self) -> dict[str, object]:
        """For the manifest."""
        return {
            "at_ns": self.at_ns,
            "lost": list(self.lost),
            "cut": list(self.cut),
            "pairs": [list(pair) for pair in self.pairs],
            "laid": [list(pair) for pair in self.laid],
            "laid_s": self.laid_s,
            "crossed_s": self.crossed_s,
            "crossed": self.crossed.section(),
        }


class Nodes:
    """The nodes of an ensemble while they run; use it as a context manager."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.processes: list[Started] = []  # by node
        self.proofs: list[Proof] = []  # by node
        self.crossed: Crossed | None = None  # None: there is only one node
        self.joints: dict[tuple[int, ...], BrokerProcess] = {}  # our own bridges, by their pair and number
        self.spans: dict[tuple[int, ...], Span] = {}  # what each of them carries
        self.disks: list[SmallDisk] = []
        self.pairs = setup.pairs  # bridged now
        self._seats = seats_of(setup.stand, setup.folder)
        self.group = describe(setup, self._seats)
        self._cores: tuple[int, ...] = ()  # of all nodes together; empty: every one of the machine
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        try:
            self._start()
            self.crossed = self._cross(range(len(self.processes))) if len(self.processes) > 1 else None
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def doors(self) -> list[Door]:
        """The way to each node from where its clients are."""
        return [
            Door(
                number,
                process.node.host,
                process.node.port,
                named(self.setup.login, process.node),
                self.setup.stand.home(number),
            )
            for number, process in enumerate(self.processes)
        ]

    def keep_to(self, cores: Sequence[int]) -> None:
        """Holds all processes to these cores, and those that are started later; where none is named they have all."""
        self._cores = tuple(cores)
        if cores:
            hold((pid for each in (*self.processes, *self.joints.values()) for pid in each.pids()), cores)

    def _require_alive(self, among: Collection[int]) -> None:
        for number in among:
            self.processes[number].require_alive("messages to cross")
        for joint in self.joints.values():
            joint.require_alive("messages to cross")

    # -- starting -------------------------------------------------------------------------------------------------

    def _start(self) -> None:
        seats, group = self._seats, self.group
        for number, server in enumerate(group.servers):
            self._serve(server, self.setup.folder / f"server-{number}")
        if group.is_together:
            for seat, node in zip(seats, group.nodes, strict=True):
                self._launch(seat, node)
            for process in list(self.processes):
                self._prove(process)
        else:
            for seat, node in zip(seats, group.nodes, strict=True):
                self._prove(self._launch(seat, node))
        for pair, end in self.setup.openers(self.pairs).items():
            if end is None:
                self._lay(pair)
        await_joined(self.joints.values())

    def _lay(self, pair: Pair) -> None:
        """Bridges two nodes by processes of our own."""
        setup, bridging = self.setup, self.setup.ensemble.bridging
        for span in setup.spans(pair):
            self.spans[span.key] = span
            self.joints[span.key] = self._stack.enter_context(
                joint_process(
                    span,
                    [process.node for process in self.processes],
                    setup.drivers,
                    login=named(setup.login, self.processes[pair[0]].node),
                    qos=max(common_qos(setup.drivers)),
                    folder=setup.folder,
                    place=setup.stand.brokers[pair[0]],
                    bridging=bridging,
                    limits=setup.bridge_limits,
                )
            )

    def _launch(self, seat: Seat, node: Node) -> Started:
        place = self.setup.stand.brokers[seat.index]
        process = process_of(node, folder=seat.folder, limits=self.setup.limits, place=place)
        if seat.index in self.setup.small_disks:
            self.disks += [
                self._stack.enter_context(SmallDisk(seat.folder / name, node=seat.index)) for name in node.scratch
            ]
        self._stack.enter_context(process)
        self.processes.append(process)
        return process

    def _prove(self, process: Started) -> None:
        """Waits until the node is ready, and makes it a member."""
        number, node = self.processes.index(process), process.node
        with inside(self.setup.stand.home(number).namespace):
            proof = prove_ready(process, node.host, node.port, login=self.setup.login, prefix=self.setup.prefix)
        self.proofs.append(proof)
        for command in node.joins:
            join_group(process, command)

    def _serve(self, node: Node, folder: Path) -> None:
        """What nodes need beside them, at the first seat: ready when it listens."""
        place = self.setup.stand.brokers[0]
        process = self._stack.enter_context(process_of(node, folder=folder, place=place))
        deadline = time.monotonic() + node.ready_s
        while not owns_listener(process, node.host, node.port):
            process.require_alive(f"its listener on {node.host}:{node.port}")
            if time.monotonic() > deadline:
                raise RunError(
                    f"{node.argv[0]} does not listen on {node.host}:{node.port} after {node.ready_s:g} s; "
                    f"the end of its log:\n{process.log_tail()}"
                )
            time.sleep(_POLL_S)

    # -- crossing -------------------------------------------------------------------------------------------------

    def is_cut(self, lost: Collection[int], cut: Collection[str]) -> bool:
        """Whether bridges pass a link that is cut, or stand beside the tree since theirs is whole again."""
        dead = self._dead(cut)
        own = [pair for pair in self._stock if pair not in dead and not set(pair) & set(lost)]
        return any(pair in dead for pair in self.pairs) or any(pair not in self.pairs for pair in own)

    def lay_anew(self, lost: Collection[int], cut: Collection[str] = ()) -> Relaid:
        """Joins the bridged nodes that are left by a tree without lost ones and cut links, and proves it.

        Bridges that still stand stay, and new ones are processes of our own: no broker is touched, so that no client
        is disconnected and no session is lost, as they would be if brokers were started again with other bridges.
        A broker's own bridge comes back with its link, so that it goes before one of ours.
        """
        began, at_ns = time.monotonic(), time.monotonic_ns()
        dead = self._dead(cut)
        left = [number for number in range(len(self.processes)) if number not in lost]
        standing: list[Pair] = []
        for pair in (*self._stock, *self.pairs):
            if (
                pair not in standing
                and pair not in dead
                and not set(pair) & set(lost)
                and not loop_in([*standing, pair])
            ):
                standing.append(pair)
        costs = self.setup.stand.costs or mesh(len(self.processes))
        tree = spanning_tree(left, {pair: cost for pair, cost in costs.items() if pair not in dead}, keep=standing)
        laid = tuple(pair for pair in tree if pair not in standing)
        for key in [key for key in self.joints if key[:2] not in tree]:
            self.joints.pop(key).stop()
        for pair in laid:
            self._lay(pair)
        await_joined(joint for key, joint in self.joints.items() if key[:2] in laid)
        self.keep_to(self._cores)
        self.pairs = tree
        laid_s = time.monotonic() - began
        crossed = self._cross(left)
        crossed_s = time.monotonic() - began
        return Relaid(at_ns, tuple(sorted(lost)), tuple(sorted(cut)), tree, laid, laid_s, crossed_s, crossed)

    @property
    def _stock(self) -> list[Pair]:
        """Bridges of the brokers themselves, which come and go with their nodes and links alone."""
        return [pair for pair, end in self.setup.openers(self.setup.pairs).items() if end is not None]

    def _dead(self, cut: Collection[str]) -> set[Pair]:
        return {pair for pair, links in self.setup.stand.ways.items() if links & set(cut)}

    def revive(self, number: int, *, lost: Collection[int]) -> None:
        """Starts a node again, on what it had on disk; `lost` are those that stay away.

        Bridges of the brokers' own come back with it, so what was laid around it is taken away before: both together
        would be a loop.
        """
        own = self.setup.openers(self.setup.pairs)
        left = [each for each in range(len(self.processes)) if each not in lost]
        back = [pair for pair in own if not set(pair) & set(lost)]
        if self.pairs:
            self.pairs = spanning_tree(left, self.setup.stand.costs or mesh(len(self.processes)), keep=back)
        for key in [key for key in self.joints if key[:2] not in self.pairs]:
            self.joints.pop(key).stop()
        self.processes[number].revive()
        laid = {key[:2] for key in self.joints}
        for pair in self.pairs:
            if own.get(pair) is None and pair not in laid:
                self._lay(pair)  # it connects as soon as the node lets it
        self.keep_to(self._cores)

    def _cross(self, among: Collection[int]) -> Crossed:
        try:
            return prove_crossings(
                [door for door in self.doors() if door.node in among],
                qos=common_qos(self.setup.drivers),
                deadline_s=max(process.node.ready_s for process in self.processes),
                prefix=self.setup.prefix,
                check=lambda: self._require_alive(among),
            )
        except NotCrossedError as problem:
            tails = "\n".join(
                f"node {node}: the end of its log:\n{self.processes[node].log_tail(8) or '(nothing was logged)'}"
                for node in (problem.start, problem.end)
            )
            raise RunError(
                f"the {self.setup.ensemble.join} of {len(self.processes)} nodes does not form: "
                f"{problem.message}\n{tails}",
                hint=f"the files and logs of all nodes are in {self.setup.folder}",
            ) from problem


def common_qos(drivers: Sequence[Broker]) -> tuple[int, ...]:
    """What all of them have."""
    return tuple(int(level) for level in Qos if all(level in each.abilities.qos for each in drivers))


def describe(setup: Setup, seats: Sequence[Seat]) -> Group:
    """What the drivers say is to be started."""
    if setup.ensemble.join is Join.CLUSTER and len(seats) > 1:
        first = setup.drivers[0]
        if not isinstance(first, Clusters) or not first.abilities.has_clusters:
            raise UserError(f"{setup.choices[0].driver} has no clusters", hint="take join: bridge")
        return first.cluster(setup.choices[0], seats, security=setup.security)
    opening = setup.openers(setup.pairs)
    return Group(tuple(_bridged(setup, seat, seats, opening) for seat in seats))


def _bridged(setup: Setup, seat: Seat, seats: Sequence[Seat], opening: Mapping[Pair, int | None]) -> Node:
    """The node at this seat, which opens those bridges that are its to open."""
    broker, choice, security = setup.drivers[seat.index], setup.choices[seat.index], _own(setup, seat)
    far = [one + other - seat.index for (one, other), end in opening.items() if end == seat.index]
    if far and isinstance(broker, Bridges):
        peers = [_peer(setup, seats[number]) for number in far]
        return broker.bridged(choice, seat, peers=peers, security=security)
    with inside(setup.stand.brokers[seat.index].namespace):  # its driver looks for ports that are free there
        return broker.node(choice, folder=seat.folder, host=seat.host, port=seat.port, security=security)


def _own(setup: Setup, seat: Seat) -> Security:
    """With a private folder of the node's own: brokers have one name for theirs, whichever node it is."""
    if setup.security.folder is None or len(setup.choices) == 1:
        return setup.security
    folder = setup.security.folder / str(seat.index)
    folder.mkdir(mode=0o700, exist_ok=True)
    return replace(setup.security, folder=folder)


def _peer(setup: Setup, seat: Seat) -> Peer:
    password = None if setup.login.password is None else setup.login.password.decode()
    return Peer(f"node-{seat.index}", seat.host, seat.port, setup.login.user, password)
