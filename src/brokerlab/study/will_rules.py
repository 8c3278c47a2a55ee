"""What wills need and allow beside them."""

from collections.abc import Iterable, Mapping

from brokerlab.study import life, mqtt5, quantity, roles, topics, wills
from brokerlab.study.document import Document, KeyPath
from brokerlab.study.factor import read_qos
from brokerlab.study.factors import read_protocol
from brokerlab.study.facts import DriverFacts
from brokerlab.study.lookup import VARIABLES, WORKLOAD, read_or_none, values_of
from brokerlab.study.nearest import listed
from brokerlab.study.values import Behaviour, Roles, Start, Topics, Workload
from brokerlab.study.will_values import Wills
from brokerlab.study.wills import WILL_PREFIX

_WILL: KeyPath = (*WORKLOAD, "will")


def check_wills(document: Document, drivers: Mapping[str, DriverFacts], used: Iterable[tuple[str, str]]) -> None:
    """Adds the problems that it finds to the document's."""
    keys = [path for path in (_WILL, *((*VARIABLES, key) for key in wills.KEYS)) if path in document.places]
    if not keys or (keys == [_WILL] and document.get(*_WILL) is None):
        return
    _check_stays(document)
    _check_delay(document)
    _check_overhearing(document, keys[0])
    for name, driver in used:
        for path, written in values_of(document, "will_qos") or [(keys[0], Wills().qos)]:
            qos = read_or_none(read_qos, written)
            if driver in drivers and qos is not None and qos not in drivers[driver].qos:
                known = listed(str(level) for level in drivers[driver].qos)
                document.add(path, f"broker {name} (driver {driver}) has no QoS {qos}; it has {known}")


def _check_stays(document: Document) -> None:
    """Connections that end during the load would leave wills in the midst of it."""
    for path, written in values_of(document, "behaviour"):
        if read_or_none(life.read_behaviour, written) not in (None, Behaviour.PERSISTENT):
            document.add(path, "wills need connections that last until the load is over: write persistent")
    for path, written in values_of(document, "role"):
        if read_or_none(roles.read_role, written) == Roles.LOOP:
            document.add(path, "wills are those of publishers, and the role loop has none: write one-way or echo")
    for path, written in values_of(document, "start"):
        if read_or_none(roles.read_start, written) == Start.CONTROL:
            document.add(path, "wills need publishers that start by the clock: write clock")


def _check_delay(document: Document) -> None:
    """A delay is a property, which older versions have not; and it ends with the session at the latest."""
    for path, written in values_of(document, "will_delay"):
        delay_s = read_or_none(wills.read_delay_s, written)
        if not delay_s:
            continue
        versions = values_of(document, "protocol") or [(path, Workload().protocol)]
        for _, version in versions:
            read = read_or_none(read_protocol, version)
            if read not in (None, "5.0"):
                document.add(path, f'a delay needs protocol: "5.0"; MQTT {read} has none')
        for _, expiry in values_of(document, "session_expiry"):
            expiry_s = read_or_none(mqtt5.read_expiry_s, expiry)
            if isinstance(expiry_s, int) and expiry_s <= delay_s:
                ends = quantity.seconds_text(expiry_s)
                document.add(path, f"the session ends after {ends}, and its will comes then: raise session_expiry")


def _check_overhearing(document: Document, path: KeyPath) -> None:
    """A subscriber of the load that hears wills would find messages that nobody published."""
    written = document.get(*WORKLOAD, "topics", "subscribe")
    filters = [written or Topics().subscribe] if not isinstance(written, list) else written
    for each in filters:
        if isinstance(each, str) and topics.may_match(each, f"{WILL_PREFIX}{{publisher}}"):
            document.add(path, f'the subscribers of the load would hear the wills: "{each}" matches "{WILL_PREFIX}…"')
