"""The wills of publishers: the mapping `will`, which will_rules.py holds against the rest of a study."""

from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any

from pydantic import PlainValidator

from brokerlab.study import quantity
from brokerlab.study import values as v
from brokerlab.study.factor import OFF, ON, FactorKind, read_qos, read_switch
from brokerlab.study.part import Part
from brokerlab.study.problems import RuleError
from brokerlab.study.will_values import Wills

_DEFAULT = Wills()
_LONGEST_DELAY_S = 1800

WILL_PREFIX = "brokerlab-will/"  # wills are published below it, and nothing of a load is


def read_delay_s(written: object) -> int:
    """Whole seconds, as MQTT counts them."""
    delay_s = quantity.read_seconds(written)
    if delay_s != int(delay_s) or not 0 <= delay_s <= _LONGEST_DELAY_S:
        raise RuleError("must be whole seconds from 0 s to 30 min: MQTT 5.0 counts so")
    return int(delay_s)


def read_share_percent(written: object) -> float:
    share_percent = quantity.read_percent(written)
    if not 0 < share_percent <= 100:
        raise RuleError("must be above 0 % and at most 100 %: these publishers are closed, and their wills are due")
    return share_percent


Delay = Annotated[int, PlainValidator(read_delay_s)]


class WillPart(Part):
    qos: Annotated[int, PlainValidator(read_qos)] = _DEFAULT.qos
    retain: Annotated[str, PlainValidator(read_switch)] = OFF
    delay: Delay = _DEFAULT.delay_s
    share: Annotated[float, PlainValidator(read_share_percent)] = _DEFAULT.share_percent

    def value(self) -> Wills:
        return Wills(qos=self.qos, retain=self.retain == ON, delay_s=self.delay, share_percent=self.share)


def written(wills: Wills | None) -> dict[str, Any]:
    """The key of a study file; none where nobody has a will."""
    if wills is None:
        return {}
    return {
        "will": {
            "qos": wills.qos,
            "retain": wills.retain,
            "delay": quantity.seconds_text(wills.delay_s),
            "share": quantity.percent_text(wills.share_percent),
        }
    }


def _kind(
    key: str, field: str, read: Callable[[object], v.Level], shown: Callable[[v.Level], str | int],
    meant: Callable[[v.Level], int],
) -> FactorKind:  # fmt: skip
    def apply(workload: v.Workload, level: v.Level) -> v.Workload:
        changed: dict[str, Any] = {field: meant(level)}
        return replace(workload, will=replace(workload.will or _DEFAULT, **changed))

    return FactorKind(f"will_{key}", ("will", key), read, shown, apply)


KINDS = (
    _kind("qos", "qos", read_qos, int, int),
    _kind("delay", "delay_s", read_delay_s, lambda level: quantity.seconds_text(float(level)), int),
)
KEYS = tuple(kind.name for kind in KINDS)
