"""Ensembles in a study file: the mapping system.ensemble, scenario.placement and scenario.locality, and their factors.

What they need beside them is in ensemble_rules.py.
"""

from dataclasses import replace
from typing import Annotated, Any

from pydantic import PlainValidator

from brokerlab.study import quantity
from brokerlab.study.bridging import KINDS as BRIDGING_KINDS
from brokerlab.study.bridging import BridgingPart, written_bridging
from brokerlab.study.ensemble_values import SINGLE, BridgeShape, Ensemble, Join
from brokerlab.study.factor import FactorKind, read_whole
from brokerlab.study.part import Part
from brokerlab.study.placement_values import IN_TURN, SPREAD, Placement, Spot
from brokerlab.study.problems import RuleError, check_name
from brokerlab.study.tree import Pair, loop_in
from brokerlab.study.values import Level, Workload

_MOST_NODES = 100
_WHOLE = 100.0


def read_nodes(written: object) -> int:
    return read_whole(written, least=1, most=_MOST_NODES)


def read_join(written: object) -> Join:
    return Join(check_name("way to join nodes", written, known=[join.value for join in Join]))


def read_bridges(written: object) -> BridgeShape | tuple[Pair, ...]:
    """A shape by its name, or pairs of nodes."""
    if isinstance(written, str):
        known = [shape.value for shape in BridgeShape]
        return BridgeShape(check_name("shape of bridges, beside a list of pairs", written, known=known))
    if not isinstance(written, list) or not written:
        raise RuleError("must be tree, star, chain, or a list of pairs of nodes such as [[0, 1], [1, 2]]")
    pairs = tuple(_read_pair(each) for each in written)
    if loop := loop_in(pairs):
        raise RuleError(f"these bridges make a loop, in which messages go round: {' - '.join(map(str, loop))}")
    return pairs


def _read_pair(written: object) -> Pair:
    if not isinstance(written, list) or len(written) != 2:
        raise RuleError("must be pairs of nodes such as [[0, 1], [1, 2]]")
    one, other = (read_whole(each, least=0, most=_MOST_NODES - 1) for each in written)
    return one, other


def read_members(written: object) -> tuple[str, ...]:
    if not isinstance(written, list) or len(written) < 2 or not all(isinstance(each, str) for each in written):
        raise RuleError("must be a list of at least two brokers of system.brokers")
    return tuple(written)


def read_spot(written: object) -> Spot | tuple[float, ...]:
    """A word, or how many percent go to each node."""
    if isinstance(written, dict) and list(written) == ["share"]:
        return _read_shares(written["share"])
    return Spot(check_name("placement, beside share: [60 %, 40 %]", written, known=[spot.value for spot in Spot]))


def read_spot_word(written: object) -> str:
    """As a level of a factor."""
    return Spot(check_name("placement", written, known=[spot.value for spot in Spot])).value


def _read_shares(written: object) -> tuple[float, ...]:
    if not isinstance(written, list) or not written:
        raise RuleError("share must be a list with the percents of each node, such as [60 %, 40 %]")
    shares = tuple(quantity.read_percent(each) for each in written)
    if min(shares) < 0 or abs(sum(shares) - _WHOLE) > 1e-6:
        raise RuleError(f"the shares must come to 100 %, and are {quantity.percent_text(sum(shares))}")
    return shares


def read_locality(written: object) -> float | str:
    if isinstance(written, str) and written.strip().isalpha():
        return check_name("locality, beside percents", written, known=[SPREAD])
    percent = quantity.read_percent(written)
    if not 0 <= percent <= _WHOLE:
        raise RuleError("must be from 0 % to 100 %, or spread")
    return percent


class EnsemblePart(Part):
    nodes: Annotated[int, PlainValidator(read_nodes)] = SINGLE.nodes
    join: Annotated[Join, PlainValidator(read_join)] = SINGLE.join
    bridges: Annotated[Any, PlainValidator(read_bridges)] = SINGLE.bridges
    members: Annotated[tuple[str, ...], PlainValidator(read_members)] = SINGLE.members
    bridge: BridgingPart | None = None

    def value(self) -> Ensemble:
        bridging = self.bridge.value() if self.bridge else None
        return Ensemble(self.nodes, self.join, self.bridges, self.members, bridging)


class PlacementPart(Part):
    publishers: Annotated[Any, PlainValidator(read_spot)] = IN_TURN.publishers
    subscribers: Annotated[Any, PlainValidator(read_spot)] = IN_TURN.subscribers

    def value(self, locality: float | str | None) -> Placement:
        return Placement(self.publishers, self.subscribers, locality)


def written_ensemble(ensemble: Ensemble) -> dict[str, Any]:
    content: dict[str, Any] = {"nodes": ensemble.nodes, "join": ensemble.join.value}
    if ensemble.bridges != SINGLE.bridges:
        bridges = ensemble.bridges
        content["bridges"] = bridges.value if isinstance(bridges, BridgeShape) else [list(pair) for pair in bridges]
    if ensemble.bridging is not None:
        content["bridge"] = written_bridging(ensemble.bridging)
    return content | ({"members": list(ensemble.members)} if ensemble.members else {})


def written_placement(placement: Placement) -> dict[str, Any]:
    """The keys of scenario; none where clients go in turn."""
    if placement.locality is not None:
        return {"locality": locality_text(placement.locality)}
    if placement == IN_TURN:
        return {}
    return {"placement": {name: _spot_written(getattr(placement, name)) for name in ("publishers", "subscribers")}}


def _spot_written(spot: Spot | tuple[float, ...]) -> Any:
    return {"share": [quantity.percent_text(share) for share in spot]} if isinstance(spot, tuple) else spot.value


def locality_text(level: Level) -> str:
    return level if isinstance(level, str) else quantity.percent_text(float(level))


def _same(workload: Workload, _level: Level) -> Workload:
    return workload


def _placing(workload: Workload, **change: Any) -> Workload:
    return replace(workload, placement=replace(workload.placement, **change))


KINDS = (
    FactorKind(
        "nodes", (), read_nodes, int, _same,
        ensemble=lambda ensemble, level: replace(ensemble, nodes=int(level)),
    ),
    FactorKind(
        "join", (), lambda written: read_join(written).value, str, _same,
        ensemble=lambda ensemble, level: replace(ensemble, join=Join(str(level))),
    ),
    FactorKind(
        "locality", (), read_locality, locality_text,
        lambda workload, level: _placing(workload, locality=read_locality(locality_text(level))),
    ),
    FactorKind(
        "publishers_at", (), read_spot_word, str,
        lambda workload, level: _placing(workload, publishers=Spot(str(level))),
    ),
    FactorKind(
        "subscribers_at", (), read_spot_word, str,
        lambda workload, level: _placing(workload, subscribers=Spot(str(level))),
    ),
    *BRIDGING_KINDS,
)  # fmt: skip
