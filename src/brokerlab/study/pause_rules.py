"""What a pause of the subscribers needs and allows beside it."""

from brokerlab.study import life, roles
from brokerlab.study.document import Document, KeyPath
from brokerlab.study.lookup import VARIABLES, WORKLOAD, read_or_none, values_of
from brokerlab.study.pause import read_pause_s
from brokerlab.study.pause_values import Pause
from brokerlab.study.readers import read_arrivals, read_phase_s
from brokerlab.study.topics_part import read_subscribe_at
from brokerlab.study.values import Arrivals, Behaviour, Phases, Roles, SubscribeAt, Who

_PAUSE = (*WORKLOAD, "pause")
_PHASES = ("deploy", "phases")
# Closed loops wait for what is not read, and a search tells the broker's limit by it.
_CLOSED = (Arrivals.WINDOW, Arrivals.SATURATE, Arrivals.SEARCH)


def check_pause(document: Document) -> None:
    """Adds the problems that it finds to the document's."""
    keys = [path for path in (_PAUSE, (*VARIABLES, "pause")) if path in document.places]
    if not keys or (keys == [_PAUSE] and document.get(*_PAUSE) is None):
        return
    path = keys[0]
    arrivals = read_or_none(read_arrivals, document.get(*WORKLOAD, "schedule", "arrivals"))
    if arrivals in _CLOSED:
        document.add(path, f"{arrivals} arrivals wait for subscribers, which then pause: take an open loop")
    for role_path, written in values_of(document, "role"):
        if read_or_none(roles.read_role, written) not in (None, Roles.ONE_WAY):
            document.add(role_path, "who pauses is a subscriber of its own: write one-way")
    all_leave = read_or_none(life.read_who, document.get(*WORKLOAD, "clients", "who")) is Who.ALL
    for life_path, written in values_of(document, "behaviour"):
        behaviour = read_or_none(life.read_behaviour, written)
        if behaviour is Behaviour.STORM or (behaviour is Behaviour.CHURN and all_leave):
            document.add(life_path, f"a {behaviour} ends connections in the midst of a pause: write persistent")
    at = document.get(*WORKLOAD, "topics", "subscribe_at")
    if at is not None and read_or_none(read_subscribe_at, at) == SubscribeAt.AFTER:
        document.add(path, "subscribers that come after the messages have none to pause for")
    _check_end(document)


def _check_end(document: Document) -> None:
    """A pause that outlasts the run would lose everything by plan."""
    measure_s = _seconds(document, (*_PHASES, "measure"), Phases().measure_s)
    drain_s = _seconds(document, (*_PHASES, "drain"), Phases().drain_s)
    after_s = _seconds(document, (*_PAUSE, "after"), Pause().after_s)
    for path, written in values_of(document, "pause"):
        for_s = read_or_none(read_pause_s, written)
        if for_s is not None and after_s + for_s >= measure_s + drain_s:
            document.add(path, "the pause must end before measure and drain do, or nothing is read after it")


def _seconds(document: Document, path: KeyPath, default_s: float) -> float:
    """What is written there; the default also where it cannot be read, which the model reports."""
    read: float | None = read_or_none(read_phase_s, document.get(*path)) if path in document.places else None
    return default_s if read is None else read
