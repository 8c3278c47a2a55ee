"""What the behaviours of clients need and allow beside them."""

from brokerlab.study.document import Document
from brokerlab.study.life import read_behaviour, read_session, read_who
from brokerlab.study.lookup import VARIABLES, WORKLOAD, read_or_none, values_of
from brokerlab.study.nearest import listed
from brokerlab.study.readers import read_arrivals
from brokerlab.study.values import Arrivals, Behaviour, SessionKind, Who

_CLIENTS = (*WORKLOAD, "clients")
# Keys that belong to some behaviours alone, with an example where such a behaviour cannot do without.
_OWNED = {
    "lifetime": ((Behaviour.CHURN,), "5 s"),
    "every": ((Behaviour.STORM,), "5 s"),
    "who": ((Behaviour.CHURN, Behaviour.STORM), None),
}
_CLOSED = (Arrivals.SATURATE, Arrivals.WINDOW)


def check_life(document: Document) -> None:
    """Adds the problems that it finds to the document's."""
    chosen = values_of(document, "behaviour")
    levels = [read_or_none(read_behaviour, written) for _, written in chosen] or [Behaviour.PERSISTENT]
    if None in levels:
        return
    for key, (owners, example) in _OWNED.items():
        paths = [path for path in ((*_CLIENTS, key), (*VARIABLES, key)) if path in document.places]
        is_used = any(level in owners for level in levels)
        noun = "behaviours" if len(owners) > 1 else "behaviour"
        for path in paths if not is_used else ():
            document.add(path, f"belongs to the {noun} {listed(owners)}, which the study does not have", of_key=True)
        if is_used and example and not paths:
            needs = next(path for (path, _), level in zip(chosen, levels, strict=True) if level in owners)
            document.add(needs, f"needs the key {key} in scenario.workload.clients, such as {key}: {example}")
    arrivals = read_or_none(read_arrivals, document.get(*WORKLOAD, "schedule", "arrivals"))
    if arrivals is Arrivals.SEARCH:
        _check_absent(document)
    if arrivals in _CLOSED:
        for (path, _), level in zip(chosen, levels, strict=False):
            if level is not Behaviour.PERSISTENT:
                rule = f"needs a schedule of its own; {arrivals} arrivals are a closed loop over standing connections"
                document.add(path, rule)


def _check_absent(document: Document) -> None:
    """A search takes a lost message for the broker's limit; who is away without a session loses some at any rate."""
    who_path = (*_CLIENTS, "who")
    sessions = {read_or_none(read_session, written) for _, written in values_of(document, "session")} or {None}
    if read_or_none(read_who, document.get(*who_path)) is Who.ALL and sessions != {SessionKind.PERSISTENT}:
        document.add(who_path, "in a search subscribers that leave need session: persistent, or they lose messages")
