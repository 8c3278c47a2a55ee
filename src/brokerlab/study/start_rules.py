"""What a start by control messages needs and allows beside it."""

import re

from brokerlab.study import roles
from brokerlab.study.document import Document
from brokerlab.study.lookup import WORKLOAD, read_or_none, values_of
from brokerlab.study.readers import read_arrivals
from brokerlab.study.topics import CONTROL_TOPIC, topic_matches
from brokerlab.study.values import Arrivals, Start

# A search starts trial after trial, saturation looks at its sockets at intervals.
_NOT_REMOTE = (Arrivals.SEARCH, Arrivals.SATURATE)
_PLACEHOLDER = re.compile(r"\{\w+\}")


def check_start(document: Document) -> None:
    """Adds the problems that it finds to the document's."""
    remote = [path for path, written in values_of(document, "start") if _read(written) == Start.CONTROL]
    if not remote:
        return
    arrivals = read_or_none(read_arrivals, document.get(*WORKLOAD, "schedule", "arrivals"))
    if arrivals in _NOT_REMOTE:
        document.add(remote[0], f"{arrivals} arrivals start by the clock: write clock")
    if arrivals is Arrivals.REPLAY and not values_of(document, "rate"):
        document.add(remote[0], "the control messages tell a rate: give schedule.rate, or start by the clock")
    for key in ("publish", "subscribe"):
        path = (*WORKLOAD, "topics", key)
        written = document.get(*path)
        for pattern in written if isinstance(written, list) else [written]:
            if isinstance(pattern, str) and topic_matches(_PLACEHOLDER.sub("0", pattern), CONTROL_TOPIC):
                document.add(path, f'"{CONTROL_TOPIC}" has the control messages of start: control; take another')


def _read(written: object) -> str | None:
    read: str | None = read_or_none(roles.read_start, written)
    return read
