"""The keys of a link in a study file, and the link as such keys again."""

from dataclasses import fields, replace
from typing import Annotated, Any

from pydantic import PlainValidator, model_validator

from brokerlab.study import quantity
from brokerlab.study.link_profiles import PROFILES
from brokerlab.study.part import Part
from brokerlab.study.problems import RuleError, check_name
from brokerlab.study.topology import PLAIN, Direction, Link

NONE = "none"  # no rate, where a profile or the other direction has one
_LONGEST_MS = 60_000.0
_HIGHEST_BITS_PER_S = 100e9
_LEAST_BITS_PER_S = 8_000.0  # slower than a frame in ten seconds nothing can be proved
_LEAST_QUEUE_BYTES = 1514  # one frame
_MOST_QUEUE_BYTES = 1 << 30
_MOST_LOSS_PERCENT = 90.0


def read_rtt_ms(written: object) -> float:
    rtt_ms = quantity.read_milliseconds(written)
    if not 0 <= rtt_ms <= 2 * _LONGEST_MS:
        raise RuleError("must be from 0 ms to 120 s")
    return rtt_ms


def read_delay_ms(written: object) -> float:
    delay_ms = quantity.read_milliseconds(written)
    if not 0 <= delay_ms <= _LONGEST_MS:
        raise RuleError("must be from 0 ms to 60 s")
    return delay_ms


def read_loss_percent(written: object) -> float:
    """A share of the packets; with more than this no connection lasts long enough to be measured."""
    loss_percent = quantity.read_percent(written)
    if not 0 <= loss_percent <= _MOST_LOSS_PERCENT:
        raise RuleError(f"must be from 0 % to {_MOST_LOSS_PERCENT:g} %")
    return loss_percent


def read_share_percent(written: object) -> float:
    share_percent = quantity.read_percent(written)
    if not 0 <= share_percent < 100:
        raise RuleError("must be from 0 % to less than 100 %")
    return share_percent


def read_link_rate(written: object) -> float:
    """Bits of whole frames a second; 0 for none at all."""
    if written == NONE:
        return 0.0
    bits_per_s = quantity.read_bits_per_s(written)
    if not _LEAST_BITS_PER_S <= bits_per_s <= _HIGHEST_BITS_PER_S:
        raise RuleError("must be from 8 kbit/s to 100 Gbit/s, or none")
    return bits_per_s


def read_queue_bytes(written: object) -> int:
    queue_bytes = quantity.read_bytes(written)
    if not _LEAST_QUEUE_BYTES <= queue_bytes <= _MOST_QUEUE_BYTES:
        raise RuleError(f"must be from {_LEAST_QUEUE_BYTES} B, one frame, to 1 GiB")
    return queue_bytes


def read_profile(written: object) -> str:
    return check_name("profile of a link", written, known=PROFILES)


Rtt = Annotated[float, PlainValidator(read_rtt_ms)]
Loss = Annotated[float, PlainValidator(read_loss_percent)]
LinkRate = Annotated[float, PlainValidator(read_link_rate)]
Profile = Annotated[str, PlainValidator(read_profile)]
_Delay = Annotated[float, PlainValidator(read_delay_ms)]
_Share = Annotated[float, PlainValidator(read_share_percent)]

# Key of a study file -> what it sets.
_NAMES = {
    "delay": "delay_ms",
    "jitter": "jitter_ms",
    "loss": "loss_percent",
    "correlation": "correlation_percent",
    "duplicate": "duplicate_percent",
    "reorder": "reorder_percent",
    "rate": "rate_bits_per_s",
    "queue": "queue_bytes",
}


class DirectionPart(Part):
    """What one direction is like, as far as it is said."""

    delay: _Delay | None = None
    jitter: _Delay | None = None
    loss: Loss | None = None
    correlation: _Share | None = None
    duplicate: _Share | None = None
    reorder: _Share | None = None
    rate: LinkRate | None = None
    queue: Annotated[int, PlainValidator(read_queue_bytes)] | None = None

    def changes(self) -> dict[str, Any]:
        said = {name: getattr(self, key) for key, name in _NAMES.items() if getattr(self, key) is not None}
        if said.get("rate_bits_per_s") == 0:
            said |= {"rate_bits_per_s": None, "queue_bytes": None}
        return said


class LinkPart(DirectionPart):
    """A link: what is said counts for both directions, but for what `back` says of the second."""

    rtt: Rtt | None = None
    profile: Profile | None = None
    back: DirectionPart | None = None

    @model_validator(mode="after")
    def _agrees(self) -> "LinkPart":
        has_delay = self.delay is not None or (self.back is not None and self.back.delay is not None)
        if self.rtt is not None and has_delay:
            raise RuleError("rtt is both delays together: give it, or delay and back.delay")
        return self

    def link(self, base: Link = PLAIN) -> Link:
        """The link, where `base` is what it is like unless something is said."""
        if self.profile is not None:
            base = PROFILES[self.profile]
        both = self.changes() | ({} if self.rtt is None else {"delay_ms": self.rtt / 2})
        link = Link(replace(base.there, **both), replace(base.back, **both))
        if self.back is not None:
            link = replace(link, back=replace(link.back, **self.back.changes()))
        for direction in (link.there, link.back):
            check_direction(direction)
        return link


def check_direction(direction: Direction) -> None:
    """Refuses figures that contradict each other, or that would look as if they counted."""
    if direction.jitter_ms > direction.delay_ms:
        given, most = map(quantity.milliseconds_text, (direction.jitter_ms, direction.delay_ms))
        raise RuleError(f"jitter of {given} is more than the delay of one direction, {most}")
    if direction.reorder_percent and not direction.delay_ms:
        raise RuleError("reorder needs a delay: packets overtake by not being delayed")
    if direction.correlation_percent and not direction.loss_percent:
        raise RuleError("correlation is of losses: give loss beside it")
    if direction.queue_bytes is not None and direction.rate_bits_per_s is None:
        raise RuleError("queue is what waits for the rate: give rate beside it")


def link_written(link: Link) -> dict[str, Any]:
    """The keys of a link that read back to it."""
    keys = _written(link.there, Direction())
    differing = _written(link.back, link.there)
    if "delay" not in differing and "delay" in keys:
        del keys["delay"]
        keys = {"rtt": quantity.milliseconds_text(link.rtt_ms)} | keys
    return keys | ({"back": differing} if differing else {})


def full_written(link: Link) -> dict[str, Any]:
    """The keys of a link that read back to it, whatever it would be like without them."""
    there, back = (_every(direction) for direction in (link.there, link.back))
    return there | {"back": back}


def _every(direction: Direction) -> dict[str, Any]:
    unsaid = {"queue_bytes"} if direction.queue_bytes is None else set()
    return {key: _text(name, getattr(direction, name)) for key, name in _NAMES.items() if name not in unsaid}


def _written(direction: Direction, base: Direction) -> dict[str, Any]:
    names = [each.name for each in fields(Direction)]
    keys = {name: key for key, name in _NAMES.items()}
    differing = [name for name in names if getattr(direction, name) != getattr(base, name)]
    return {keys[name]: _text(name, getattr(direction, name)) for name in differing}


def _text(name: str, value: Any) -> str:
    if name.endswith("_ms"):
        return quantity.milliseconds_text(value)
    if name.endswith("_percent"):
        return quantity.percent_text(value)
    if name.endswith("_bytes"):
        return quantity.bytes_text(value)
    return NONE if value is None else quantity.bits_per_s_text(value)
