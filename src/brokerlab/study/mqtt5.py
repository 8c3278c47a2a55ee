"""What MQTT 5.0 can add to a message, a subscription or a session, each with its cost: the mapping `mqtt5`."""

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any

from pydantic import PlainValidator

from brokerlab.study import quantity
from brokerlab.study import values as v
from brokerlab.study.factor import OFF, ON, FactorKind, read_switch, read_whole
from brokerlab.study.mqtt5_values import Mqtt5
from brokerlab.study.part import Part
from brokerlab.study.problems import RuleError, check_name

_MOST_PROPERTIES = 1000
_LONGEST_PROPERTY_BYTES = 65_535
PROPERTY_HEAD_BYTES = 5  # of a user property: what it is, and the lengths of name and value
_LONGEST_S = 0xFFFF_FFFF  # MQTT 5.0 sections 3.1.2.11.2 and 3.3.2.3.3: four bytes
_MOST_IN_FLIGHT = 65_535  # section 3.1.2.11.3: two bytes

NONE = "none"  # the property is not sent: as a level, what others are compared with


def read_count(written: object) -> int:
    return read_whole(written, least=0, most=_MOST_PROPERTIES)


def read_property_bytes(written: object) -> int:
    """Name and value of one user property together; a bare number is bytes here, as its key says."""
    size = written if isinstance(written, int) and not isinstance(written, bool) else quantity.read_bytes(written)
    return read_whole(size, least=2, most=_LONGEST_PROPERTY_BYTES)


def read_receive_maximum(written: object) -> int | str:
    if isinstance(written, str):
        return check_name("receive maximum, beside whole numbers", written, known=[NONE])
    return read_whole(written, least=1, most=_MOST_IN_FLIGHT)


def read_expiry_s(written: object) -> int | str:
    """Whole seconds, as MQTT counts them, or none."""
    if written == NONE:
        return NONE
    expiry_s = quantity.read_seconds(written)
    if expiry_s != int(expiry_s) or not 1 <= expiry_s <= _LONGEST_S:
        raise RuleError("must be whole seconds, at least 1 s, as MQTT 5.0 counts them, or none")
    return int(expiry_s)


Properties = Annotated[int, PlainValidator(read_count)]
PropertyBytes = Annotated[int, PlainValidator(read_property_bytes)]
ReceiveMaximum = Annotated[int | str, PlainValidator(read_receive_maximum)]
Switch = Annotated[str, PlainValidator(read_switch)]
Expiry = Annotated[int | str, PlainValidator(read_expiry_s)]


class Mqtt5Part(Part):
    user_properties: Properties = Mqtt5().user_properties
    property_bytes: PropertyBytes = Mqtt5().property_bytes
    metadata: Switch = OFF
    topic_alias: Switch = OFF
    expiry: Expiry = NONE
    receive_maximum: ReceiveMaximum = NONE
    subscription_identifiers: Switch = OFF
    response_topic: Switch = OFF
    session_expiry: Expiry = NONE

    def value(self) -> Mqtt5:
        return Mqtt5(
            user_properties=self.user_properties,
            property_bytes=self.property_bytes,
            metadata=self.metadata == ON,
            topic_alias=self.topic_alias == ON,
            expiry_s=_given(self.expiry),
            receive_maximum=_given(self.receive_maximum),
            subscription_identifiers=self.subscription_identifiers == ON,
            response_topic=self.response_topic == ON,
            session_expiry_s=_given(self.session_expiry),
        )


def written(mqtt5: Mqtt5) -> dict[str, Any]:
    """The key of a study file; none where nothing of MQTT 5.0 is asked for."""
    every = {
        "user_properties": mqtt5.user_properties,
        "property_bytes": quantity.bytes_text(mqtt5.property_bytes),
        "metadata": mqtt5.metadata,
        "topic_alias": mqtt5.topic_alias,
        "expiry": _seconds(mqtt5.expiry_s),
        "receive_maximum": mqtt5.receive_maximum,
        "subscription_identifiers": mqtt5.subscription_identifiers,
        "response_topic": mqtt5.response_topic,
        "session_expiry": _seconds(mqtt5.session_expiry_s),
    }
    used = {key: value for key, value in every.items() if value is not None}
    return {} if mqtt5 == Mqtt5() else {"mqtt5": used}


def _seconds(expiry_s: int | None) -> str | None:
    return None if expiry_s is None else quantity.seconds_text(expiry_s)


def _kind(
    key: str, read: Callable[[object], v.Level], field: str = "", *,
    shown: Callable[[v.Level], str | int] = int, meant: Callable[[v.Level], int | None] = int,
) -> FactorKind:  # fmt: skip
    def apply(workload: v.Workload, level: v.Level) -> v.Workload:
        changed: dict[str, Any] = {field or key: meant(level)}
        return replace(workload, mqtt5=replace(workload.mqtt5, **changed))

    return FactorKind(key, ("mqtt5", key), read, shown, apply)


def _given(level: v.Level) -> int | None:
    return None if level == NONE else int(level)


def _maximum(level: v.Level) -> str | int:
    return NONE if level == NONE else int(level)


def _expiry(level: v.Level) -> str:
    return NONE if level == NONE else quantity.seconds_text(float(level))


def _is_on(level: v.Level) -> bool:
    return level == ON


KINDS = (
    _kind("user_properties", read_count),
    _kind("property_bytes", read_property_bytes, shown=lambda level: quantity.bytes_text(int(level))),
    _kind("metadata", read_switch, shown=str, meant=_is_on),
    _kind("topic_alias", read_switch, shown=str, meant=_is_on),
    _kind("expiry", read_expiry_s, "expiry_s", shown=_expiry, meant=_given),
    _kind("receive_maximum", read_receive_maximum, shown=_maximum, meant=_given),
    _kind("subscription_identifiers", read_switch, shown=str, meant=_is_on),
    _kind("response_topic", read_switch, shown=str, meant=_is_on),
    _kind("session_expiry", read_expiry_s, "session_expiry_s", shown=_expiry, meant=_given),
)
KEYS = tuple(kind.name for kind in KINDS)
