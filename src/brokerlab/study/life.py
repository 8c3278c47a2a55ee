"""How clients connect and how long their connections last: `scenario.workload.clients`, its readers and its factors."""

import ipaddress
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any

from pydantic import PlainValidator

from brokerlab.study import quantity
from brokerlab.study.factor import FactorKind, read_whole
from brokerlab.study.part import Part
from brokerlab.study.problems import RuleError, check_name
from brokerlab.study.values import Behaviour, ClientLife, Level, SessionKind, Who, Workload

_DEFAULT = ClientLife()
_HIGHEST_CONNECT_RATE_PER_S = 1e6
_SHORTEST_LIFE_S, _LONGEST_LIFE_S = 0.01, 24 * 3600.0
_LONGEST_KEEP_ALIVE_S = 0xFFFF  # MQTT 3.1.1 section 3.1.2.10
_MOST_IDLE = 1_000_000
_MOST_ADDRESSES = 254


def read_behaviour(written: object) -> Behaviour:
    return Behaviour(check_name("behaviour of clients", written, known=[each.value for each in Behaviour]))


def read_session(written: object) -> SessionKind:
    return SessionKind(check_name("kind of session", written, known=[each.value for each in SessionKind]))


def read_who(written: object) -> Who:
    return Who(check_name("group of clients", written, known=[each.value for each in Who]))


def read_connect_rate_per_s(written: object) -> float:
    rate_per_s = quantity.read_per_s(written)
    if not 0 < rate_per_s <= _HIGHEST_CONNECT_RATE_PER_S:
        raise RuleError(f"must be above 0 and at most {quantity.per_s_text(_HIGHEST_CONNECT_RATE_PER_S)}")
    return rate_per_s


def read_life_s(written: object) -> float:
    """How long a connection lasts, or how long it is from one storm to the next."""
    life_s = quantity.read_seconds(written)
    if not _SHORTEST_LIFE_S <= life_s <= _LONGEST_LIFE_S:
        raise RuleError("must be from 10 ms to 24 h")
    return life_s


def read_keep_alive_s(written: object) -> int:
    keep_alive_s = quantity.read_seconds(written)
    if keep_alive_s != int(keep_alive_s) or not 1 <= keep_alive_s <= _LONGEST_KEEP_ALIVE_S:
        raise RuleError(f"must be whole seconds from 1 s to {_LONGEST_KEEP_ALIVE_S} s: two bytes of CONNECT")
    return int(keep_alive_s)


def read_idle(written: object) -> int:
    return read_whole(written, least=0, most=_MOST_IDLE)


def read_address_count(written: object) -> int:
    return read_whole(written, least=1, most=_MOST_ADDRESSES)


def read_addresses(written: object) -> tuple[str, ...]:
    """Source addresses: so many of the loopback's, or those of a list."""
    if not isinstance(written, list | tuple):
        return loopback_addresses(read_address_count(written))
    if not written or len(set(map(str, written))) < len(written):
        raise RuleError("must be different addresses, at least one")
    for each in written:
        try:
            ipaddress.IPv4Address(each if isinstance(each, str) else "")
        except ValueError as problem:
            raise RuleError(f"{each!r} is no IPv4 address, such as 127.0.0.2") from problem
    return tuple(written)


def loopback_addresses(count: int) -> tuple[str, ...]:
    return tuple(f"127.0.0.{number}" for number in range(1, count + 1))


class LifePart(Part):
    behaviour: Annotated[Behaviour, PlainValidator(read_behaviour)] = _DEFAULT.behaviour
    connect_rate: Annotated[float | None, PlainValidator(read_connect_rate_per_s)] = None
    lifetime: Annotated[float | None, PlainValidator(read_life_s)] = None
    every: Annotated[float | None, PlainValidator(read_life_s)] = None
    who: Annotated[Who, PlainValidator(read_who)] = _DEFAULT.who
    session: Annotated[SessionKind, PlainValidator(read_session)] = _DEFAULT.session
    keep_alive: Annotated[int, PlainValidator(read_keep_alive_s)] = _DEFAULT.keep_alive_s
    idle: Annotated[int, PlainValidator(read_idle)] = _DEFAULT.idle
    addresses: Annotated[tuple[str, ...], PlainValidator(read_addresses)] = _DEFAULT.addresses
    reconnect: bool = _DEFAULT.reconnect
    failover: bool = _DEFAULT.failover

    def value(self) -> ClientLife:
        return ClientLife(
            behaviour=self.behaviour,
            connect_rate_per_s=self.connect_rate,
            lifetime_s=self.lifetime,
            every_s=self.every,
            who=self.who,
            session=self.session,
            keep_alive_s=self.keep_alive,
            idle=self.idle,
            addresses=self.addresses,
            reconnect=self.reconnect,
            failover=self.failover,
        )


def written_life(life: ClientLife) -> dict[str, Any]:
    """As in a study file; what is not set is left out, because it would ask for what the others do not have."""
    every: dict[str, Any] = {
        "behaviour": life.behaviour.value,
        "connect_rate": None if life.connect_rate_per_s is None else quantity.per_s_text(life.connect_rate_per_s),
        "lifetime": None if life.lifetime_s is None else quantity.seconds_text(life.lifetime_s),
        "every": None if life.every_s is None else quantity.seconds_text(life.every_s),
        "who": None if life.who is _DEFAULT.who else life.who.value,
        "session": life.session.value,
        "keep_alive": quantity.seconds_text(life.keep_alive_s),
        "idle": life.idle,
        "addresses": list(life.addresses) or None,
        "reconnect": life.reconnect or None,
        "failover": life.failover or None,
    }
    return {key: value for key, value in every.items() if value is not None}


def _kind(
    name: str, field: str, read: Callable[[object], Any], written: Callable[[Any], str | int],
    stored: Callable[[Any], Any] = lambda level: level,
) -> FactorKind:  # fmt: skip
    def apply(workload: Workload, level: Level) -> Workload:
        return replace(workload, clients=replace(workload.clients, **{field: stored(level)}))

    return FactorKind(name, ("clients", name), read, written, apply)


KINDS = (
    _kind("behaviour", "behaviour", read_behaviour, str, read_behaviour),
    _kind("connect_rate", "connect_rate_per_s", read_connect_rate_per_s, quantity.per_s_text),
    _kind("lifetime", "lifetime_s", read_life_s, quantity.seconds_text),
    _kind("every", "every_s", read_life_s, quantity.seconds_text),
    _kind("session", "session", read_session, str, read_session),
    _kind("keep_alive", "keep_alive_s", read_keep_alive_s, quantity.seconds_text),
    _kind("idle", "idle", read_idle, int),
    _kind("addresses", "addresses", read_address_count, int, loopback_addresses),
)
