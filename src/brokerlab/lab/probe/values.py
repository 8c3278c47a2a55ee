"""What a check may find, and the numbers of MQTT 5.0 that checks speak of.

A check is a function that returns a sentence about what it saw when the rule was kept, and raises otherwise:

    Broken        the broker did something that the section does not allow
    Unsupported   the broker does not do this, and says so or may leave it out
    Undecided     nothing can be said, for the reason given
"""

from enum import StrEnum

from brokerlab.load.properties import Properties, Value

# MQTT 5.0 section 2.2.2.2, beside those of load/properties.py
PAYLOAD_FORMAT = 0x01
CONTENT_TYPE = 0x03
WILL_DELAY = 0x18
RETAIN_AVAILABLE = 0x25
SUBSCRIPTION_ID_AVAILABLE = 0x29
SHARED_AVAILABLE = 0x2A

# MQTT 5.0 section 3.8.3.1, beside the QoS
NO_LOCAL = 0x04
RETAIN_AS_PUBLISHED = 0x08
RETAIN_IF_NEW = 0x10
RETAIN_NEVER = 0x20


class Result(StrEnum):
    KEPT = "kept"
    BROKEN = "broken"
    UNSUPPORTED = "not supported"
    UNKNOWN = "unknown"


class NotKept(Exception):  # noqa: N818 - a finding, not an error of ours
    """Ends a check with something else than kept."""

    result = Result.UNKNOWN


class Broken(NotKept):
    result = Result.BROKEN


class Unsupported(NotKept):
    result = Result.UNSUPPORTED


class Undecided(NotKept):
    result = Result.UNKNOWN


def require(is_so: bool, otherwise: str) -> None:
    """Broken, unless it is so."""
    if not is_so:
        raise Broken(otherwise)


def value_of(properties: Properties, identifier: int) -> Value | None:
    """The first value of a property; None where it is not there."""
    return next((value for found, value in properties if found == identifier), None)
