"""What faults need and allow beside them."""

from typing import Any

from pydantic import ValidationError

from brokerlab.study.document import Document, KeyPath
from brokerlab.study.ensemble_rules import node_counts
from brokerlab.study.fault_values import OF_LINKS, OF_NODES, FaultKind
from brokerlab.study.faults import FaultPart
from brokerlab.study.life import read_behaviour
from brokerlab.study.lookup import WORKLOAD, read_or_none, values_of
from brokerlab.study.nearest import nearest
from brokerlab.study.readers import read_arrivals, read_phase_s
from brokerlab.study.roles import read_role
from brokerlab.study.topology import Topology, link_names
from brokerlab.study.topology_rules import topology_of
from brokerlab.study.values import Arrivals, Behaviour, Phases, Roles

_FAULTS: KeyPath = ("scenario", "faults")
_NEMESIS: KeyPath = ("scenario", "nemesis")
_CLOSED = (Arrivals.WINDOW, Arrivals.SATURATE, Arrivals.SEARCH)


def check_faults(document: Document) -> None:
    """Adds the problems that it finds to the document's."""
    keys = [path for path in (_FAULTS, _NEMESIS) if document.get(*path) is not None]
    if not keys:
        return
    arrivals = read_or_none(read_arrivals, document.get(*WORKLOAD, "schedule", "arrivals"))
    if arrivals in _CLOSED:
        document.add(keys[0], f"{arrivals} arrivals wait for what a fault holds up: take an open loop")
    for path, written in values_of(document, "role"):
        if read_or_none(read_role, written) not in (None, Roles.ONE_WAY):
            document.add(path, "faults are told by what subscribers miss: write one-way")
    for path, written in values_of(document, "behaviour"):
        if read_or_none(read_behaviour, written) not in (None, Behaviour.PERSISTENT):
            document.add(path, "connections that end by themselves hide those that a fault ends: write persistent")
    _check_each(document, _topology(document))


def _topology(document: Document) -> Topology:
    return topology_of(document) or Topology()


def _check_each(document: Document, topology: Topology) -> None:
    nodes = min((count for _, count in node_counts(document) if count), default=1)  # each cell has them
    measure = read_or_none(read_phase_s, document.get("deploy", "phases", "measure"))
    measure_s = Phases().measure_s if measure is None else measure
    written: Any = document.get(*_FAULTS)
    for number, content in enumerate(written if isinstance(written, list) else []):
        path = (*_FAULTS, number)
        try:
            fault = FaultPart.model_validate(content).value()
        except ValidationError:
            continue  # the model says why
        if fault.kind in OF_NODES and (fault.node or 0) >= nodes:
            document.add((*path, "node"), f"there are nodes 0 to {nodes - 1}")
        if fault.delivered is None and fault.at_s >= measure_s:
            document.add((*path, "at"), f"must be before the end of measure, which lasts {measure_s:g} s")
        if fault.kind in (*OF_LINKS, FaultKind.PARTITION) and topology.is_loopback:
            document.add(path, "needs links: give the study a topology with sites")
        elif fault.kind in OF_LINKS and fault.link not in (known := link_names(topology, nodes=nodes)):
            close = nearest(str(fault.link), known)
            meant = f"; did you mean {close}?" if close else f"; there are {', '.join(known)}"
            document.add((*path, "link"), f"no link has that name{meant}")
        elif fault.kind is FaultKind.PARTITION and not set(fault.sites) < set(range(1, topology.sites + 1)):
            document.add((*path, "sites"), f"must be some of the sites 1 to {topology.sites}, and not all")
