"""The keys `scenario.faults` and `scenario.nemesis`, and the schedule that they come to: pure.

faults:
  - {do: kill, node: 1, at: 2 s}
  - {do: restart, node: 1, at: 4 s}
  - {do: cut, link: router1-router2, at: 6 s, for: 2 s}
  - {do: storm, delivered: 1000}             on a condition: when so many messages have been delivered
nemesis: {faults: 3, of: [stop, restart], for: 1 s}
"""

import itertools
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Self

from pydantic import Field, PlainValidator, model_validator

from brokerlab.study import quantity
from brokerlab.study.factor import read_whole
from brokerlab.study.fault_values import (
    LASTING,
    OF_LINKS,
    OF_NODES,
    Fault,
    FaultKind,
    Faults,
    Nemesis,
)
from brokerlab.study.link_part import LinkPart, full_written
from brokerlab.study.part import Part
from brokerlab.study.problems import RuleError, check_name
from brokerlab.study.seeds import derived_seed

_LONGEST_S = 86_400.0
_MOST = 1000
_RANDOM = (FaultKind.STOP, FaultKind.RESTART, FaultKind.STORM, FaultKind.CUT)


def read_kind(written: object) -> FaultKind:
    return FaultKind(check_name("fault", written, known=[kind.value for kind in FaultKind]))


def read_time_s(written: object) -> float:
    time_s = quantity.read_seconds(written)
    if not 0 <= time_s <= _LONGEST_S:
        raise RuleError("must be from 0 s to a day")
    return time_s


def read_number(written: object) -> int:
    return read_whole(written, least=0, most=10_000)


def read_count(written: object) -> int:
    return read_whole(written, least=1, most=10**12)


def read_site(written: object) -> int:
    return read_whole(written, least=1, most=10_000)


def read_link_name(written: object) -> str:
    if not isinstance(written, str) or not written.strip():
        raise RuleError("must be the name of a link, such as router1-router2; `brokerlab plan` lists them")
    return written


Time = Annotated[float, PlainValidator(read_time_s)]


class FaultPart(Part):
    do: Annotated[FaultKind, PlainValidator(read_kind)]
    at: Time | None = None
    delivered: Annotated[int | None, PlainValidator(read_count)] = None
    for_: Time | None = Field(default=None, alias="for")
    node: Annotated[int | None, PlainValidator(read_number)] = None
    link: Annotated[str | None, PlainValidator(read_link_name)] = None
    sites: list[Annotated[int, PlainValidator(read_site)]] = Field(default=[], min_length=1)
    to: LinkPart | None = None

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if (self.at is None) == (self.delivered is None):
            raise RuleError("needs either at, a time since the start of measure, or delivered, a number of messages")
        for key, owners in (("node", OF_NODES), ("link", OF_LINKS), ("for_", LASTING)):
            if getattr(self, key) is not None and self.do not in owners:
                raise RuleError(f"{key.rstrip('_')} has no meaning for {self.do}")
        if self.do in OF_LINKS and self.link is None:
            raise RuleError(f"{self.do} needs a link beside it, such as link: router1-router2")
        if bool(self.sites) != (self.do is FaultKind.PARTITION):
            raise RuleError("sites belong to partition: those that are cut from all others")
        if (self.to is not None) != (self.do is FaultKind.SLOW):
            raise RuleError("slow needs to, what the link becomes, such as to: {rtt: 200 ms}; others do not")
        return self

    def value(self) -> Fault:
        is_of_node = self.do in OF_NODES
        return Fault(
            self.do,
            at_s=self.at or 0.0,
            delivered=self.delivered,
            for_s=self.for_,
            node=(self.node or 0) if is_of_node else None,
            link=self.link,
            sites=tuple(self.sites),
            claim=None if self.to is None else self.to.link(),
        )


class NemesisPart(Part):
    faults: Annotated[int, PlainValidator(lambda written: read_whole(written, least=1, most=_MOST))]
    of: list[Annotated[FaultKind, PlainValidator(read_kind)]] = Field(default=list(_RANDOM[:2]), min_length=1)
    for_: Time = Field(default=1.0, alias="for")

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if others := [kind for kind in self.of if kind not in _RANDOM]:
            raise RuleError(f"chance has {', '.join(_RANDOM)}, and not {others[0]}")
        return self

    def value(self) -> Nemesis:
        return Nemesis(self.faults, tuple(self.of), self.for_)


def value_of(faults: Sequence[FaultPart], nemesis: NemesisPart | None) -> Faults:
    return Faults(tuple(part.value() for part in faults), None if nemesis is None else nemesis.value())


def written(faults: Faults) -> dict[str, Any]:
    """The keys of a study file; none where nothing is planned."""
    keys: dict[str, Any] = {}
    if faults.planned:
        keys["faults"] = [_written_fault(each) for each in faults.planned]
    if (nemesis := faults.nemesis) is not None:
        keys["nemesis"] = {
            "faults": nemesis.faults,
            "of": [kind.value for kind in nemesis.kinds],
            "for": quantity.seconds_text(nemesis.for_s),
        }
    return keys


def _written_fault(fault: Fault) -> dict[str, Any]:
    every: dict[str, Any] = {
        "do": fault.kind.value,
        "at": quantity.seconds_text(fault.at_s) if fault.delivered is None else None,
        "delivered": fault.delivered,
        "for": None if fault.for_s is None else quantity.seconds_text(fault.for_s),
        "node": fault.node,
        "link": fault.link,
        "sites": list(fault.sites) or None,
        "to": None if fault.claim is None else full_written(fault.claim),
    }
    return {key: value for key, value in every.items() if value is not None}


def schedule_of(
    faults: Faults, *, seed: int, nodes: int, links: Sequence[str], measure_s: float
) -> tuple[Fault, ...]:  # fmt: skip
    """What is done in a run, by time; what chance adds is drawn from its seed.

    Chance leaves a second before the first fault and after the end of each, so that what follows from one can be told
    from what follows from the next.
    """
    planned = list(faults.planned)
    if (nemesis := faults.nemesis) is not None:
        kinds = [kind for kind in nemesis.kinds if kind is not FaultKind.CUT or links]
        room_s = measure_s / nemesis.faults
        for number in range(nemesis.faults):
            draw = _draws(seed, number)
            kind = kinds[next(draw) % len(kinds)]
            spare_s = max(room_s - nemesis.for_s - 1.0, 0.0)
            at_s = number * room_s + min(1.0, room_s / 2) + spare_s * (next(draw) % 10**6) / 10**6
            planned.append(
                Fault(
                    kind,
                    at_s=round(at_s, 3),
                    for_s=nemesis.for_s if kind in LASTING else None,
                    node=next(draw) % nodes if kind in OF_NODES else None,
                    link=links[next(draw) % len(links)] if kind is FaultKind.CUT else None,
                )
            )
    return tuple(sorted(planned, key=lambda fault: (fault.delivered is not None, fault.at_s)))


def _draws(seed: int, number: int) -> Iterator[int]:
    for place in itertools.count():
        yield derived_seed(seed, "nemesis", number, place)
