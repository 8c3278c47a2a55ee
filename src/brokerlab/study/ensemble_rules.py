"""What several nodes need and allow beside them; every problem comes out at once."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from brokerlab.study import ensemble as e
from brokerlab.study import roles
from brokerlab.study.access import read_transport
from brokerlab.study.document import Document, KeyPath
from brokerlab.study.ensemble_values import BridgePer, BridgeShape, BridgeWays, Join
from brokerlab.study.facts import DriverFacts
from brokerlab.study.lookup import VARIABLES, WORKLOAD, items_of, read_or_none, values_of
from brokerlab.study.nearest import listed, nearest
from brokerlab.study.placement_values import Spot
from brokerlab.study.problems import RuleError
from brokerlab.study.readers import read_arrivals
from brokerlab.study.tree import check_pairs
from brokerlab.study.values import Arrivals, Roles, Transport

_ENSEMBLE: KeyPath = ("system", "ensemble")
_PLACEMENT: KeyPath = ("scenario", "placement")
_LOCALITY: KeyPath = ("scenario", "locality")


def check_ensemble(
    document: Document, drivers: Mapping[str, DriverFacts], used: Sequence[tuple[str, str]]
) -> None:  # fmt: skip
    """Adds the problems that it finds to the document's."""
    nodes = node_counts(document)
    joins = [(path, read_or_none(e.read_join, written)) for path, written in _values(document, "join")]
    most = max((count for _, count in nodes if count), default=1)
    _check_members(document, most)
    if most == 1:
        _check_single(document)
        return
    for path, join in joins or [(next(path for path, count in nodes if count == most), Join.NONE)]:
        if join is Join.NONE:
            document.add(path, "several nodes need a join beside them: cluster or bridge")
        elif join is not None:
            _check_able(document, path, join, drivers, used)
    if any(join is Join.CLUSTER for _, join in joins):
        _check_counts(document, nodes, drivers, used)
    _check_bridges(document, [count for _, count in nodes if count], [join for _, join in joins])
    _check_bridging(document, [join for _, join in joins])
    _check_shares(document, [count for _, count in nodes if count])
    _check_load(document)


def node_counts(document: Document) -> list[tuple[KeyPath, int | None]]:
    """How many nodes the study asks for, and where; None where the model refuses it."""
    return [(path, read_or_none(e.read_nodes, written)) for path, written in _values(document, "nodes")]


def _values(document: Document, key: str) -> list[tuple[KeyPath, Any]]:
    levels = list(items_of(document, (*VARIABLES, key)))
    home = (*_ENSEMBLE, key)
    return levels or ([(home, document.get(*home))] if home in document.places else [])


def _check_bridging(document: Document, joins: Sequence[Join | None]) -> None:
    """A bridge for each publisher leads from its node to node 0, and no further."""
    home: KeyPath = (*_ENSEMBLE, "bridge")
    levels = [(*VARIABLES, "bridge_per"), (*VARIABLES, "bridge_connections")]
    written = [path for path in (home, *levels) if path in document.places]
    if written and Join.BRIDGE not in joins:
        document.add(written[0], "needs system.ensemble.join: bridge", of_key=True)
    per = [(path, value) for path, value in items_of(document, levels[0])] or [
        ((*home, "per"), document.get(*home, "per"))
    ]
    ways = ((*home, "ways"), document.get(*home, "ways"))
    for path, value in [*per, ways]:
        is_inward = value in (BridgePer.PUBLISHER.value, BridgeWays.INWARD.value)
        if is_inward and document.get(*_ENSEMBLE, "bridges") != BridgeShape.STAR.value:
            document.add(path, "bridges that lead inward, to node 0, need system.ensemble.bridges: star")


def _members(document: Document) -> list[tuple[KeyPath, str]]:
    return [(path, name) for path, name in items_of(document, (*_ENSEMBLE, "members")) if isinstance(name, str)]


def _check_single(document: Document) -> None:
    """Keys that one node does not use would look as if they counted."""
    paths = [_PLACEMENT, _LOCALITY, *((*VARIABLES, key) for key in ("locality", "publishers_at", "subscribers_at"))]
    for path in paths:
        if path in document.places:
            document.add(path, "needs several nodes: set system.ensemble.nodes and join", of_key=True)


def _check_able(
    document: Document, path: KeyPath, join: Join, drivers: Mapping[str, DriverFacts], used: Sequence[tuple[str, str]]
) -> None:  # fmt: skip
    """A bridge of our own joins any two brokers, so that only clusters need a broker's ability."""
    for name, driver in used:
        facts = drivers.get(driver)
        if facts is None:
            continue
        if facts.is_elsewhere:
            document.add(path, f"broker {name} is somebody's own ({driver}), and has as many nodes as it has")
        elif join is Join.CLUSTER and not facts.has_clusters:
            rule = f"broker {name} has no clusters; `brokerlab brokers` shows which have"
            document.add(path, rule, nearest_valid=Join.BRIDGE.value)


def _check_counts(
    document: Document,
    nodes: Sequence[tuple[KeyPath, int | None]],
    drivers: Mapping[str, DriverFacts],
    used: Sequence[tuple[str, str]],
) -> None:
    for path, count in nodes:
        for name, driver in used:
            most = drivers[driver].most_nodes if driver in drivers else None
            if count is not None and most is not None and count > most:
                nodes_said = "one node" if most == 1 else f"{most} nodes"
                document.add(path, f"broker {name} ({driver}) may have at most {nodes_said} by its licence")


def _check_members(document: Document, most: int) -> None:
    members = _members(document)
    if not members:
        return
    brokers = document.mapping("system", "brokers")
    for path, name in members:
        if brokers and name not in brokers:
            document.add(path, "is not in system.brokers", nearest_valid=nearest(name, brokers))
    here = (*_ENSEMBLE, "members")
    if most == 1:
        document.add(here, "needs several nodes: set nodes and join: bridge beside it", of_key=True)
    if any(read_or_none(e.read_join, written) is Join.CLUSTER for _, written in _values(document, "join")):
        document.add(here, "different brokers are joined by bridges: write join: bridge", of_key=True)
    levels = [name for _, name in items_of(document, (*VARIABLES, "broker"))]
    if levels and levels != [members[0][1]]:
        rule = "members say which brokers are measured: leave this factor out"
        document.add((*VARIABLES, "broker"), rule, of_key=True)


def _check_bridges(document: Document, counts: Sequence[int], joins: Sequence[Join | None]) -> None:
    path = (*_ENSEMBLE, "bridges")
    if path in document.places and Join.BRIDGE not in joins:
        document.add(path, "belongs to join: bridge", of_key=True)
    pairs = read_or_none(e.read_bridges, document.get(*path)) if path in document.places else None
    if isinstance(pairs, tuple):
        for count in counts:
            try:
                check_pairs(pairs, count)
            except RuleError as broken:
                document.add(path, broken.rule)
    if Join.BRIDGE in joins and (*_ENSEMBLE, "bridge") not in document.places:
        for here, written in values_of(document, "transport"):
            if read_or_none(read_transport, written) not in (None, Transport.TCP):
                document.add(
                    here,
                    "brokers' own bridges are laid over bare TCP: write tcp, or system.ensemble.bridge: {} for ours",
                )


def _check_shares(document: Document, counts: Sequence[int]) -> None:
    has_locality = [path for path in (_LOCALITY, (*VARIABLES, "locality")) if path in document.places]
    others = [path for path in (_PLACEMENT, *_factors("publishers_at", "subscribers_at")) if path in document.places]
    if has_locality and others:
        document.add(others[0], "locality says where clients go: leave one of the two out", of_key=True)
    for role in ("publishers", "subscribers"):
        path = (*_PLACEMENT, role)
        spot = read_or_none(e.read_spot, document.get(*path)) if path in document.places else None
        if isinstance(spot, tuple) and any(len(spot) != count for count in counts):
            wanted = listed([str(count) for count in dict.fromkeys(counts) if count != len(spot)])
            document.add(path, f"has {len(spot)} shares, and there are {wanted} nodes")


def _factors(*names: str) -> Iterator[KeyPath]:
    return ((*VARIABLES, name) for name in names)


def _check_load(document: Document) -> None:
    for path, written in values_of(document, "role"):
        if read_or_none(roles.read_role, written) not in (None, Roles.ONE_WAY):
            document.add(path, "who sends and hears at several nodes has two connections: write one-way")
    share = (*WORKLOAD, "topics", "share")
    if share in document.places and read_or_none(e.read_spot, document.get(*_PLACEMENT, "subscribers")) is not Spot.ONE:
        rule = "members of a group at several nodes may be several groups: set scenario.placement.subscribers to one"
        document.add(share, rule, of_key=True)
    arrivals = read_or_none(read_arrivals, document.get(*WORKLOAD, "schedule", "arrivals"))
    spot = read_or_none(e.read_spot, document.get(*_PLACEMENT, "publishers"))
    if arrivals is Arrivals.SATURATE and spot is not Spot.ONE:
        rule = "one window is kept by one worker: set scenario.placement.publishers to one"
        document.add((*WORKLOAD, "schedule", "arrivals"), rule)
