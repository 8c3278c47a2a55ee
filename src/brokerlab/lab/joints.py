"""Our own bridge as a process between two nodes, where neither broker has one, or where a tree is laid anew.

It is a client of both, so that it is started and stopped without touching a broker or its clients.
"""

import json
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from brokerlab.bridge.joint import COUNTERS, JOINED, Side, joint_between
from brokerlab.brokers.base import Abilities, Broker, Departure, Node
from brokerlab.brokers.process import BrokerProcess
from brokerlab.errors import RunError
from brokerlab.load.client import Login
from brokerlab.load.topics import PROOF_PREFIX
from brokerlab.study.address import written_address
from brokerlab.study.ensemble_values import BridgePer, BridgeWays, Bridging, Ensemble
from brokerlab.study.limit_values import UNLIMITED, Limits
from brokerlab.study.places import Place
from brokerlab.study.tree import Pair

_PASSWORD = "BROKERLAB_JOINT_PASSWORD"  # noqa: S105 - the name of a variable
_LATEST = "5.0"
_STOP_S = 2.0
_JOIN_S = 120.0  # the first start after an installation compiles
_POLL_S = 0.02
_COUNTER = re.compile(r'brokerlab_bridge_(?P<name>\w+?)(_total)?\{route="(?P<route>[^"]+)"\} (?P<value>\d+)')


@dataclass(frozen=True, slots=True)
class Span:
    """What one bridge carries, and from where to where."""

    key: tuple[int, ...]  # the pair of nodes, and a number where it has several bridges
    ends: tuple[int, int]  # from, to
    subscribe: tuple[str, ...]
    both: bool = True
    beside: tuple[str, ...] = ()  # passes both ways as it is
    publisher: int | None = None  # whose topic it carries


def spans_of(pair: Pair, ensemble: Ensemble, hubs: Sequence[tuple[int, str]], *, prefix: str) -> list[Span]:
    """The bridges between two nodes; `hubs` are node and topic of each publisher, by its number."""
    bridging = ensemble.bridging
    is_single = bridging is None or bridging.per is BridgePer.PAIR
    if bridging is None or (is_single and bridging.ways is BridgeWays.BOTH):
        return [Span(pair, pair, (f"{prefix}#",))]
    proofs = (f"{prefix}{PROOF_PREFIX}#",)
    own = [(number, topic) for number, (node, topic) in enumerate(hubs) if node == pair[1]]
    if not own:
        return [Span(pair, pair, proofs)]
    inward = (pair[1], pair[0])
    if is_single:
        return [Span(pair, inward, tuple(dict.fromkeys(topic for _, topic in own)), both=False, beside=proofs)]
    return [
        Span((*pair, place), inward, (topic,), False, () if place else proofs, number)
        for place, (number, topic) in enumerate(own)
    ]


def joint_process(
    span: Span,
    nodes: Sequence[Node],
    drivers: Sequence[Broker],
    *,
    login: Login,
    qos: int,
    folder: Path,
    place: Place,
    bridging: Bridging | None = None,
    limits: Limits = UNLIMITED,
) -> BrokerProcess:
    """The process that carries messages between two nodes; it is not started yet."""
    name = "-".join(("joint", *map(str, span.key)))
    ends = [drivers[number].abilities for number in span.ends]
    protocol = _LATEST if all(_speaks_latest(end, qos) for end in ends) else login.protocol
    env = {} if login.password is None else {_PASSWORD: login.password.decode()}
    sides = [
        Side(
            written_address(nodes[number].host, nodes[number].port),
            protocol=protocol,
            transport=str(login.entrance.transport),
            authority=login.entrance.authority,
            user=login.user,
            password=f"env:{_PASSWORD}" if env else None,
        )
        for number in span.ends
    ]
    options = {"transform": json.loads(bridging.transform), "connections": bridging.connections} if bridging else {}
    joint = joint_between(
        name,
        *sides,
        subscribe=span.subscribe,
        qos=qos,
        both=span.both,
        options=options,
        beside=span.beside,
        is_counted=bridging is not None,
    )
    # Port 0: it listens nowhere. It stands beside the first node of its pair, whichever way it leads.
    node = Node(joint.argv, nodes[span.key[0]].host, 0, files=joint.files, env=env, stop_s=_STOP_S)
    return BrokerProcess(node, folder=folder / name, limits=limits, place=place)


def counts_of(joint: BrokerProcess) -> dict[str, dict[str, int]]:
    """What a counted bridge has told last, by route and counter; nothing where it has told nothing yet."""
    counts: dict[str, dict[str, int]] = {}
    path = joint.folder / COUNTERS
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        if found := _COUNTER.fullmatch(line):
            counts.setdefault(found["route"], {})[found["name"]] = int(found["value"])
    return counts


def _speaks_latest(end: Abilities, qos: int) -> bool:
    """A bridge keeps to the QoS that a broker names, and knows its own messages by a property that they come with."""
    is_enough = end.says_qos_at_5 is None or end.says_qos_at_5 >= qos
    is_marked = Departure.LOSES_PROPERTIES not in end.departs
    return _LATEST in end.protocols and not end.has_port_per_protocol and is_enough and is_marked


def await_joined(joints: Iterable[BrokerProcess]) -> None:
    """Returns when all of them say that messages pass; RunError when one ends, or time is up."""
    deadline = time.monotonic() + _JOIN_S
    for joint in joints:
        while JOINED not in joint.log.read_text(encoding="utf-8", errors="replace").splitlines():
            joint.require_alive("both of its brokers")
            if time.monotonic() > deadline:
                raise RunError(
                    f"the bridge in {joint.folder} has not joined its brokers in {_JOIN_S:g} s; the end of its log:\n"
                    f"{joint.log_tail() or '(nothing was logged)'}",
                    hint=joint.whereabouts,
                )
            time.sleep(_POLL_S)
