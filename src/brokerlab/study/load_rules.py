"""What a load on a Spark cluster allows beside it: workers there share no memory and no network of ours."""

from brokerlab.study import roles
from brokerlab.study.document import Document, KeyPath
from brokerlab.study.lookup import WORKLOAD, read_or_none, values_of
from brokerlab.study.readers import read_arrivals
from brokerlab.study.values import Arrivals, Roles

_LOAD_ON: KeyPath = ("deploy", "load_on")
_TOPOLOGY: KeyPath = ("scenario", "topology")


def check_load_on(document: Document) -> None:
    """Adds the problems that it finds to the document's."""
    if document.get(*_LOAD_ON) != "spark":
        return
    arrivals = read_or_none(read_arrivals, document.get(*WORKLOAD, "schedule", "arrivals"))
    if arrivals == Arrivals.SATURATE:
        document.add(_LOAD_ON, "saturate needs publishers and subscribers of one machine: write local")
    others = [path for path, written in values_of(document, "role") if _role(written) not in (None, Roles.ONE_WAY)]
    if others:
        document.add(_LOAD_ON, "only the role one-way runs on a cluster: write local")
    if document.get(*_TOPOLOGY) not in (None, "loopback"):
        document.add(_LOAD_ON, "an emulated network is one of this machine: write local, or topology: loopback")


def _role(written: object) -> str | None:
    read: str | None = read_or_none(roles.read_role, written)
    return read
