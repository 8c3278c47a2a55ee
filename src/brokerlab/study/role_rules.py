"""The rules of roles and probes that concern two places of a study file at once."""

from collections.abc import Iterable

from brokerlab.study import life, mqtt5, quantity, roles, topics
from brokerlab.study.document import Document, KeyPath
from brokerlab.study.factor import ON, read_switch
from brokerlab.study.factors import LONGEST_PAYLOAD_BYTES, read_clients, read_protocol
from brokerlab.study.identity import FULL_BYTES
from brokerlab.study.lookup import VARIABLES, WORKLOAD, read_or_none, values_of
from brokerlab.study.mqtt5_values import Mqtt5
from brokerlab.study.payload_rules import sizes_of, told_otherwise
from brokerlab.study.readers import read_needed_phase_s
from brokerlab.study.topics_rules import workloads_of
from brokerlab.study.values import PER_MESSAGE, Arrivals, Behaviour, Phases, Probe, Roles, Workload

_ALONE = "in the roles echo and loop every publisher hears for itself: leave it out"


def check_roles(document: Document) -> None:
    """Adds the problems that it finds to the document's."""
    _check_echo_keys(document)
    _check_hearers(document)
    _check_reply(document)
    _check_stays(document)
    _check_search(document)
    _check_probe(document)
    _check_mqtt5(document)


def roles_of(document: Document) -> list[Roles]:
    """The roles of the study; none where one is not known, which the model reports."""
    read = [read_or_none(roles.read_role, written) for _, written in values_of(document, "role")]
    return [Roles(role) for role in read if role] or ([] if read else [Roles.ONE_WAY])


def _there(document: Document, *paths: KeyPath) -> Iterable[KeyPath]:
    return (path for path in paths if path in document.places)


def _check_echo_keys(document: Document) -> None:
    if Roles.ECHO in roles_of(document):
        return
    for path in _there(document, (*WORKLOAD, "echo"), (*VARIABLES, "echo_qos")):
        document.add(path, "belongs to the role echo; write role: echo", of_key=True)
    uses_reply = (*VARIABLES, "response_topic") in document.places or document.get(*WORKLOAD, "mqtt5", "response_topic")
    for path in _there(document, (*WORKLOAD, "topics", "reply")):
        if not uses_reply:
            document.add(path, "belongs to the role echo; write role: echo", of_key=True)


def _check_hearers(document: Document) -> None:
    """Where nobody is a subscriber alone, a number of subscribers or their filter would look as if it counted."""
    found = roles_of(document)
    if not found or Roles.ONE_WAY in found:
        return
    default = Workload()
    for path, written in values_of(document, "subscribers"):
        if read_or_none(read_clients, written) not in (None, default.subscribers):
            document.add(path, _ALONE)
    subscribe = (*WORKLOAD, "topics", "subscribe")
    if document.get(*subscribe) not in (None, default.topics.subscribe):
        document.add(subscribe, _ALONE)


def _check_reply(document: Document) -> None:
    """A device must know whom it answers, and must not hear its own answers."""
    if Roles.ECHO not in roles_of(document):
        return
    default, here = Workload().topics, (*WORKLOAD, "topics")
    publish = read_or_none(topics.check_publish_topic, document.get(*here, "publish") or default.publish)
    reply = read_or_none(topics.check_publish_topic, document.get(*here, "reply") or default.reply)
    if not publish or not reply:
        return
    if topics.may_match(publish, reply):
        document.add(here, f'the answers on "{reply}" would reach the devices, which hear "{publish}"')
    publishers = [read_or_none(read_clients, written) for _, written in values_of(document, "publishers")]
    is_many = any(number is not None and number > 1 for number in publishers)
    for key, pattern in (("publish", publish), ("reply", reply)):
        if is_many and "{publisher}" not in pattern:
            document.add(here, f'{key} "{pattern}" needs {{publisher}}: a device answers one of several publishers')


def _check_stays(document: Document) -> None:
    """A client that hears over the connection on which it publishes would have to subscribe anew each time."""
    if Roles.LOOP not in roles_of(document):
        return
    for path, written in values_of(document, "behaviour"):
        behaviour = read_or_none(life.read_behaviour, written)
        if behaviour not in (None, Behaviour.PERSISTENT):
            document.add(path, "in the role loop connections last as long as the run: write persistent")


def _check_search(document: Document) -> None:
    """Trials are decided by what plain subscribers count."""
    arrivals = (*WORKLOAD, "schedule", "arrivals")
    if document.get(*arrivals) != Arrivals.SEARCH:
        return
    for path, written in values_of(document, "role"):
        if read_or_none(roles.read_role, written) not in (None, Roles.ONE_WAY):
            document.add(path, "a search needs the role one-way")
    for path in _there(document, (*WORKLOAD, "probe")):
        document.add(path, "has no place in a search, which counts the load alone", of_key=True)


def _check_probe(document: Document) -> None:
    if not isinstance(document.get(*WORKLOAD, "probe"), dict):
        return
    every = document.get(*WORKLOAD, "probe", "every")
    every_s = Probe().every_s if every is None else read_or_none(roles.read_every_s, every)
    measure = document.get("deploy", "phases", "measure")
    measure_s = Phases().measure_s if measure is None else read_or_none(read_needed_phase_s, measure)
    if every_s is not None and measure_s is not None and every_s > measure_s:
        span = quantity.seconds_text(measure_s)
        path = (*WORKLOAD, "probe") if every is None else (*WORKLOAD, "probe", "every")
        document.add(path, f"no probe is due in the {span} of deploy.phases.measure; raise one of them")
    _check_overhearing(document)


def _check_overhearing(document: Document) -> None:
    """Among messages with another identity than its own a probe would be taken for one that nobody published."""
    others, topic = told_otherwise(document), f"{topics.PROBE_PREFIX}\0"
    heard = (
        each
        for workload in (workloads_of(document) if others else ())
        if workload.role is Roles.ONE_WAY
        for each in topics.filters_of(workload.topics, 0, publishers=1)
        if topics.topic_matches(each, topic)
    )
    if (each := next(heard, None)) is not None:
        rule = (
            f'the subscribers of the load would hear it, since "{each}" matches "{topics.PROBE_PREFIX}…", and could not'
            f" tell it from {others}: take another filter, or messages that hold their whole identity, {FULL_BYTES} B"
        )
        document.add((*WORKLOAD, "probe"), rule, of_key=True)


def _check_mqtt5(document: Document) -> None:
    """Older versions have no properties: the keys would look as if they counted."""
    _check_alias(document)
    _check_properties(document)
    _check_room(document)
    used = list(_there(document, (*WORKLOAD, "mqtt5"), *((*VARIABLES, key) for key in mqtt5.KEYS)))
    if not used:
        return
    versions = values_of(document, "protocol")
    for path, written in versions:
        version = read_or_none(read_protocol, written)
        if version is not None and version != "5.0":
            document.add(path, f'MQTT {version} has no properties, and {".".join(map(str, used[0]))} needs "5.0"')
    if not versions:
        document.add(used[0], f'needs protocol: "5.0"; the study\'s is "{Workload().protocol}"', of_key=True)


def _check_alias(document: Document) -> None:
    """Over a connection of one message the topic is told with it, and no later one could carry its alias alone."""
    behaviours = {read_or_none(life.read_behaviour, written) for _, written in values_of(document, "behaviour")}
    for path, written in values_of(document, "topic_alias"):
        if read_or_none(read_switch, written) == ON and behaviours & set(PER_MESSAGE):
            document.add(path, "needs connections of more than one message: behaviour persistent, churn or storm")


def _check_properties(document: Document) -> None:
    """A size needs something that has it; the default stands in every study that was written out."""
    counts = [read_or_none(mqtt5.read_count, written) for _, written in values_of(document, "user_properties")]
    if any(count != 0 for count in counts):
        return
    here = (*VARIABLES, "property_bytes")
    if here not in document.places:
        here = (*WORKLOAD, "mqtt5", "property_bytes")
        size = read_or_none(mqtt5.read_property_bytes, document.get(*here))
        if size in (None, Mqtt5().property_bytes):
            return
    document.add(here, "has no effect without user_properties: say how many, or leave it out", of_key=True)


def _check_room(document: Document) -> None:
    """Payload and user properties share a packet, which has 268,435,455 bytes at most."""
    counts = [read_or_none(mqtt5.read_count, written) for _, written in values_of(document, "user_properties")]
    sizes = [read_or_none(mqtt5.read_property_bytes, written) for _, written in values_of(document, "property_bytes")]
    most, size = max((each or 0 for each in counts), default=0), max((each or 0 for each in sizes), default=0)
    needed = most * (mqtt5.PROPERTY_HEAD_BYTES + (size or Mqtt5().property_bytes))
    for path, payload_bytes in sizes_of(document, document.mapping(*WORKLOAD, "payload")):
        if payload_bytes is not None and payload_bytes + needed > LONGEST_PAYLOAD_BYTES and needed:
            room = LONGEST_PAYLOAD_BYTES - needed
            document.add(path, f"beside {needed} B of user properties must be at most {room} B: MQTT's longest packet")
