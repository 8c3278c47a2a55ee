"""The key system.ensemble.bridge: every bridge is brokerlab's own, with what it does to messages on the way.

bridge:
  per: pair                         # or publisher: each publisher's topic has a bridge of its own (paper 004, AUT 2)
  ways: both                        # or inward: publishers' topics alone, from their nodes to node 0
  transform: [{python: module.function}]   # the steps of a bridge file, docs/bridge.md
  connections: persistent           # or per message, to the target
  limits: {cpus: 1, memory: 1 GiB}  # of all bridges together, in equal parts
"""

import json
from dataclasses import replace
from typing import Annotated, Any

from pydantic import PlainValidator

from brokerlab.study.ensemble_values import BRIDGE_CONNECTIONS, BridgePer, BridgeWays, Bridging, Ensemble
from brokerlab.study.factor import FactorKind
from brokerlab.study.limits import LimitsPart
from brokerlab.study.limits import written as written_limits
from brokerlab.study.part import Part
from brokerlab.study.problems import RuleError, check_name
from brokerlab.study.values import Level

STEPS = ("select", "rename", "convert", "csv_to_json", "json_to_csv", "python")


def read_per(written: object) -> str:
    return BridgePer(check_name("number of bridges", written, known=[per.value for per in BridgePer])).value


def read_ways(written: object) -> str:
    return BridgeWays(check_name("way over a bridge", written, known=[ways.value for ways in BridgeWays])).value


def read_connections(written: object) -> str:
    return check_name("kind of connections", written, known=BRIDGE_CONNECTIONS)


def read_transform(written: object) -> str:
    """The steps as JSON; what is in each the bridge itself reads, when it starts."""
    if not isinstance(written, list) or not all(isinstance(each, dict) and len(each) == 1 for each in written):
        raise RuleError("must be a list of steps such as [{python: module.function}]")
    for step in written:
        check_name("step", next(iter(step)), known=STEPS)
    return json.dumps(written)


class BridgingPart(Part):
    per: Annotated[str, PlainValidator(read_per)] = BridgePer.PAIR.value
    ways: Annotated[str, PlainValidator(read_ways)] = BridgeWays.BOTH.value
    transform: Annotated[str, PlainValidator(read_transform)] = "[]"
    connections: Annotated[str, PlainValidator(read_connections)] = BRIDGE_CONNECTIONS[0]
    limits: LimitsPart = LimitsPart()

    def value(self) -> Bridging:
        per, ways = BridgePer(self.per), BridgeWays(self.ways)
        return Bridging(per, ways, self.transform, self.connections, self.limits.value())


def written_bridging(bridging: Bridging) -> dict[str, Any]:
    content: dict[str, Any] = {"per": bridging.per.value, "ways": bridging.ways.value}
    content |= {"transform": json.loads(bridging.transform), "connections": bridging.connections}
    return content | ({"limits": written_limits(bridging.limits)} if bridging.limits else {})


def _changed(ensemble: Ensemble, **change: Any) -> Ensemble:
    return replace(ensemble, bridging=replace(ensemble.bridging or Bridging(), **change))


def _per(ensemble: Ensemble, level: Level) -> Ensemble:
    return _changed(ensemble, per=BridgePer(str(level)))


def _connections(ensemble: Ensemble, level: Level) -> Ensemble:
    return _changed(ensemble, connections=str(level))


KINDS = (
    FactorKind("bridge_per", (), read_per, str, lambda workload, _: workload, ensemble=_per),
    FactorKind("bridge_connections", (), read_connections, str, lambda workload, _: workload, ensemble=_connections),
)
