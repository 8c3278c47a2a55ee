"""The rules of networks that concern two places of a study file at once."""

import itertools
from collections.abc import Iterable
from typing import Any

from pydantic import ValidationError

from brokerlab.study.document import Document, KeyPath
from brokerlab.study.ensemble_rules import node_counts
from brokerlab.study.factors import FACTORS
from brokerlab.study.lookup import VARIABLES, WORKLOAD, items_of, read_or_none
from brokerlab.study.problems import RuleError
from brokerlab.study.topology import LOOPBACK, SITE, Topology, has_room
from brokerlab.study.topology_part import TopologyPart

TOPOLOGY: KeyPath = ("scenario", "topology")
_FACTORS = ("profile", "rtt", "link_rate", "loss")


def check_topology(document: Document, used: Iterable[tuple[str, str]]) -> None:
    """Adds the problems that it finds to the document's; `used` are names and drivers of the study's brokers."""
    topology = topology_of(document)
    if topology is None:
        return
    _check_taps(document, topology)
    _check_devices(document, topology)
    varied = [factor for factor in _FACTORS if (*VARIABLES, factor) in document.places]
    _check_factors(document, topology, varied)
    for path, nodes in node_counts(document):
        if nodes is not None and not has_room(topology, nodes=nodes):
            room = topology.sites * topology.brokers_per_site
            document.add(path, f"scenario.topology has places for {room} brokers; raise sites or brokers_per_site")
    if topology.is_loopback:
        return
    if (path := (*WORKLOAD, "clients", "addresses")) in document.places or "addresses" in document.mapping(*VARIABLES):
        where = path if path in document.places else (*VARIABLES, "addresses")
        document.add(where, "are addresses of loopback, and the topology is another", of_key=True)
    for name, driver in used:
        if driver == "remote":
            document.add(TOPOLOGY, f"broker {name} is reached over somebody else's network: write {LOOPBACK}")


def _check_taps(document: Document, topology: Topology) -> None:
    for path, tap in items_of(document, ("deploy", "captures")):
        if tap == "router" and topology.sites < 2:
            document.add(path, f"the topology {topology.shape} has no routers that hear each other")


def _check_devices(document: Document, topology: Topology) -> None:
    """Devices of the role echo that are at a site of their own."""
    path = (*WORKLOAD, "echo", "site")
    site = document.get(*path)
    if not isinstance(site, int):
        return
    if topology.is_loopback:
        document.add(path, f"{LOOPBACK} has no sites: give scenario.topology, or leave it out")
    elif site > topology.sites:
        document.add(path, f"the topology {topology.shape} has {topology.sites} sites")


def topology_of(document: Document) -> Topology | None:
    """None where the model refuses it."""
    content: Any = document.get(*TOPOLOGY)
    if content is None:
        return Topology()
    try:
        return TopologyPart.model_validate({"shape": content} if isinstance(content, str) else content).value()
    except ValidationError:
        return None


def _check_factors(document: Document, topology: Topology, varied: list[str]) -> None:
    """What would not change a link, or would make it contradict itself."""
    for factor in varied:
        if topology.shape in (LOOPBACK, SITE):
            rule = f"varies the links between routers, and the topology {topology.shape} has none"
            document.add((*VARIABLES, factor), rule, of_key=True)
            return
        if topology.links and topology.shape == "graph" and all(each.link for each in topology.links):
            rule = "has no effect, because every link of scenario.topology.links says its own figures"
            document.add((*VARIABLES, factor), rule, of_key=True)
            return
    if "profile" in varied and len(varied) > 1:
        document.add((*VARIABLES, varied[1]), "a profile has figures of its own: vary one or the other", of_key=True)
        return
    levels = [
        [(path, factor, read_or_none(FACTORS[factor].read, item)) for path, item in items_of(document, _at(factor))]
        for factor in varied
    ]
    for combination in itertools.product(*levels):
        _check_combination(document, topology, combination)


def _at(factor: str) -> KeyPath:
    return (*VARIABLES, factor)


def _check_combination(document: Document, topology: Topology, levels: Iterable[tuple[KeyPath, str, Any]]) -> None:
    for path, factor, level in levels:
        change = FACTORS[factor].network
        if level is None or change is None:
            return
        try:
            topology = change(topology, level)
        except RuleError as broken:
            document.add(path, broken.rule)
            return
