"""The script of the scripted broker: which faults it makes, and with which message.

A message is named by its arrival number: the first PUBLISH of the load that reaches the broker is 1,
the next one 2, whoever published it. A PUBLISH below `topics.PROOF_PREFIX` has no number,
and neither has one that is sent again before its QoS 2 handshake is over.

    drop       [n, ...]         acknowledged to its publisher, delivered to nobody
    duplicate  [n, ...]         delivered twice in a row; at QoS 2 under a new packet id
    dup_flag   true | false     whether the second one carries DUP at QoS 1 and 2 (DUP is not allowed at QoS 0)
    delay_ms   {n: ms, ...}     delivered that much later, while later messages pass it
    swap       [[a, b], ...]    b is delivered in a's place and a in b's; a and all between wait for b
    unacknowledged [n, ...]     delivered, but never acknowledged to its publisher
    reject     [n, ...]         neither acknowledged nor delivered: its publisher's connection is closed
    grant_qos  0 | 1 | 2        no subscription is granted more

A new fault is a field here, its reading in `script_from_json`, and one step in scripted.py.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields

from brokerlab.errors import UserError
from brokerlab.study.nearest import nearest

Numbers = frozenset[int]


@dataclass(frozen=True, slots=True)
class Script:
    """The faults, all of them optional: an empty script is a correct broker."""

    drop: Numbers = frozenset()
    duplicate: Numbers = frozenset()
    dup_flag: bool = True
    delay_ms: Mapping[int, float] = field(default_factory=dict)
    swap: tuple[tuple[int, int], ...] = ()
    unacknowledged: Numbers = frozenset()
    reject: Numbers = frozenset()
    grant_qos: int = 2


def script_from_json(content: Mapping[str, object]) -> Script:
    """The script that a JSON object describes; UserError names the key and the rule it breaks."""
    known = [each.name for each in fields(Script)]
    read: dict[str, object] = {}
    for key, value in content.items():
        if key not in known:
            near = nearest(key, known)
            raise UserError(f"{key}: no such fault" + (f"; did you mean {near}?" if near else ""))
        read[key] = _READERS[key](key, value)
    return Script(**read)  # type: ignore[arg-type]  # every reader returns what its field holds


def _number(key: str, value: object) -> int:
    if isinstance(value, str) and value.isdecimal():
        value = int(value)  # JSON objects have keys of text only
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UserError(f"{key}: {value!r} is not an arrival number; they count from 1")
    return value


def _numbers(key: str, value: object) -> Numbers:
    if not isinstance(value, list):
        raise UserError(f"{key}: {value!r} is not a list of arrival numbers")
    return frozenset(_number(key, each) for each in value)


def _boolean(key: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise UserError(f"{key}: {value!r} is neither true nor false")
    return value


def _delays(key: str, value: object) -> Mapping[int, float]:
    if not isinstance(value, Mapping):
        raise UserError(f"{key}: {value!r} does not map arrival numbers to milliseconds")
    for delay_ms in value.values():
        if not isinstance(delay_ms, int | float) or isinstance(delay_ms, bool) or delay_ms < 0:
            raise UserError(f"{key}: {delay_ms!r} is not a number of milliseconds")
    return {_number(key, number): float(delay_ms) for number, delay_ms in value.items()}


def _swaps(key: str, value: object) -> tuple[tuple[int, int], ...]:
    if not isinstance(value, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in value):
        raise UserError(f"{key}: {value!r} is not a list of pairs of arrival numbers")
    pairs = sorted(sorted(_number(key, number) for number in pair) for pair in value)
    last = 0
    for first, second in pairs:
        if first == second or first <= last:
            raise UserError(f"{key}: [{first}, {second}] is no pair of its own; pairs may not overlap")
        last = second
    return tuple((first, second) for first, second in pairs)


def _qos(key: str, value: object) -> int:
    if value not in (0, 1, 2) or isinstance(value, bool):
        raise UserError(f"{key}: {value!r} is not a QoS")
    return int(str(value))


_READERS: dict[str, Callable[[str, object], object]] = {
    "drop": _numbers,
    "duplicate": _numbers,
    "dup_flag": _boolean,
    "delay_ms": _delays,
    "swap": _swaps,
    "unacknowledged": _numbers,
    "reject": _numbers,
    "grant_qos": _qos,
}
