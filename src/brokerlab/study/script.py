"""The script of the scripted broker: which faults it makes, and with which message.

A message is named by its arrival number n: the first PUBLISH of the load that reaches the broker is 1,
the next one 2, whoever published it. A PUBLISH below `topics.PROOF_PREFIX` has no number,
and neither has one that is sent again before its QoS 2 handshake is over.

What becomes of a message:

    drop       [n, ...]         acknowledged to its publisher, delivered to nobody: at QoS 1 and 2 acknowledged and lost
    ignore     [n, ...]         neither acknowledged nor delivered; the connection stays
    reject     [n, ...]         neither acknowledged nor delivered: its publisher's connection is closed,
                                after the QoS 2 handshakes that were open before it
    unacknowledged [n, ...]     delivered, but never acknowledged to its publisher
    duplicate  [n, ...]         delivered twice in a row; at QoS 2 under a new packet id
    dup_flag   true | false     whether the second one carries DUP at QoS 1 and 2 (DUP is not allowed at QoS 0)
    retransmit [n, ...]         sent twice in a row with the same packet id, the second one with DUP, before PUBREL:
                                at QoS 2 one message to the application, at QoS 1 two; at QoS 0 there is no such thing
    truncate   {n: bytes, ...}  delivered with the first so many bytes of its payload
    delay_ms   {n: ms, ...}     delivered that much later, while later messages pass it
               ms               every message is, as over a long way
    swap       [[a, b], ...]    b is delivered in a's place and a in b's; a and all between wait for b
    hold       {n: m, ...}      n is delivered right after m, while those between pass it
    foreign    [n, ...]         right after it a message that nobody published, on the same topic
    misroute   [n, ...]         delivered to the subscribers that did not ask for it as well

    per_filter true | false     a message goes out once for each matching filter of a subscriber, not once in all;
                                MQTT 3.1.1 section 3.3.5 allows both

What becomes of connections:

    grant_qos  0 | 1 | 2        no subscription is granted more
    refuse_subscription [k, ...]    the k-th SUBSCRIBE of the load is answered with 0x80
    refuse_connection {k: code, ...}    the k-th CONNECT is answered with this code and closed;
                                        the first is that of the readiness proof
    cut        {n: bytes, ...}  the connections of its subscribers are closed after so many bytes of its PUBLISH
    part       [n, ...]         the connections of its subscribers are closed after it, when all before it are
                                acknowledged and before its own acknowledgement is taken. To a session that lasts it
                                comes again when the client is back, with DUP and its packet id (QoS 1, 2), as it should
    again      [n, ...]         the same, but it comes under a new packet id, with DUP as dup_flag says: once too often
    cut_answer {n: bytes, ...}  its publisher's connection is closed after so many bytes of the answer that
                                completes it: PUBACK at QoS 1, PUBCOMP at QoS 2; it is delivered
    malformed  [n, ...]         before it its subscribers get a packet that MQTT does not allow
    malformed_answer [n, ...]   before the answer that completes it its publisher gets one; at QoS 0 when it has come
    malformed_kind  name        which one, of MALFORMED below: a PUBLISH with QoS 3 where nothing is said
    malformed_grant [k, ...]    the SUBACK of the k-th SUBSCRIBE of the load has a reserved flag set
    will_lost  [k, ...]         the k-th will that is due is published to nobody
    will_twice [k, ...]         the k-th will that is due is published twice
    will_anyway [k, ...]        the will of the k-th client with a will that disconnects is published all the same
    stall_ms   {n: ms, ...}     after it nothing is read from any publisher for that long
    answer_ms  ms               every PUBACK and PUBREC leaves that much later
    pubcomp_ms ms               so does every PUBCOMP
    suback_ms  ms               every SUBACK, of the readiness proof too
    connack_ms ms               every CONNACK, of the readiness proof too
    service_ms ms               messages are delivered one after the other, each that much after it came or the one
                                before it left: a broker of a known capacity, 1 ms is 1,000 messages a second

A new fault is a field here, its reading in `_READERS`, and one step in load/scripted.py.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields

from brokerlab.errors import UserError
from brokerlab.study.nearest import nearest
from brokerlab.study.problems import RuleError, check_name

Numbers = frozenset[int]

_CONNACK_CODES = range(1, 6)  # MQTT 3.1.1 section 3.2.2.3
_ANSWER_BYTES = 4  # of PUBACK and PUBCOMP

MALFORMED = {
    "qos": b"\x36\x02\x00\x00",  # PUBLISH with both bits of QoS set (section 3.3.1.2)
    "length": b"\x30\xff\xff\xff\xff\x01",  # a remaining length of five bytes (section 2.2.3)
    "topic": b"\x30\x04\x00\x09ab",  # PUBLISH whose topic is longer than the packet
    "pubrel": b"\x60\x02\x00\x01",  # PUBREL without its reserved flags (section 3.6.1)
    "puback": b"\x41\x02\x00\x01",  # PUBACK with a reserved flag (section 2.2.2)
    "unknown": b"\x40\x02\xff\xff",  # PUBACK of an identifier that no message has: alone it is well formed
    "type-0": b"\x00\x00",
    "type-15": b"\xf0\x00",
}


@dataclass(frozen=True, slots=True)
class Script:
    """The faults, all of them optional: an empty script is a correct broker."""

    drop: Numbers = frozenset()
    ignore: Numbers = frozenset()
    reject: Numbers = frozenset()
    unacknowledged: Numbers = frozenset()
    duplicate: Numbers = frozenset()
    dup_flag: bool = True
    retransmit: Numbers = frozenset()
    truncate: Mapping[int, int] = field(default_factory=dict)
    delay_ms: Mapping[int, float] | float = field(default_factory=dict)
    swap: tuple[tuple[int, int], ...] = ()
    hold: Mapping[int, int] = field(default_factory=dict)
    foreign: Numbers = frozenset()
    misroute: Numbers = frozenset()
    per_filter: bool = False
    grant_qos: int = 2
    refuse_subscription: Numbers = frozenset()
    refuse_connection: Mapping[int, int] = field(default_factory=dict)
    cut: Mapping[int, int] = field(default_factory=dict)
    part: Numbers = frozenset()
    again: Numbers = frozenset()
    cut_answer: Mapping[int, int] = field(default_factory=dict)
    malformed: Numbers = frozenset()
    malformed_answer: Numbers = frozenset()
    malformed_kind: str = "qos"
    malformed_grant: Numbers = frozenset()
    will_lost: Numbers = frozenset()
    will_twice: Numbers = frozenset()
    will_anyway: Numbers = frozenset()
    stall_ms: Mapping[int, float] = field(default_factory=dict)
    answer_ms: float = 0.0
    pubcomp_ms: float = 0.0
    suback_ms: float = 0.0
    connack_ms: float = 0.0
    service_ms: float = 0.0


FAULTS = tuple(each.name for each in fields(Script))


def script_from_json(content: Mapping[str, object]) -> Script:
    """The script that a JSON object describes; UserError names the key and the rule it breaks."""
    read: dict[str, object] = {}
    for key, value in content.items():
        if key not in FAULTS:
            near = nearest(key, FAULTS)
            raise UserError(f"{key}: no such fault" + (f"; did you mean {near}?" if near else ""))
        try:
            read[key] = read_fault(key, value)
        except RuleError as broken:
            near = f"; did you mean {broken.nearest}?" if broken.nearest else ""
            raise UserError(f"{key}: {broken.rule}{near}") from broken
    return Script(**read)  # type: ignore[arg-type]  # every reader returns what its field holds


def read_fault(name: str, value: object) -> object:
    """What the field of that name holds for such a value; RuleError where it can hold none."""
    return _READERS[name](value)


def _number(value: object) -> int:
    if isinstance(value, str) and value.isdecimal():
        value = int(value)  # JSON objects have keys of text only
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise RuleError(f"{value!r} is not an arrival number; they count from 1")
    return value


def _numbers(value: object) -> Numbers:
    if not isinstance(value, list):
        raise RuleError(f"{value!r} is not a list of arrival numbers")
    return frozenset(_number(each) for each in value)


def _boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise RuleError(f"{value!r} is neither true nor false")
    return value


def _milliseconds(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < float("inf"):
        raise RuleError(f"{value!r} is not a number of milliseconds")
    return float(value)


def _mapped(value: object, *, to: str) -> dict[int, object]:
    if not isinstance(value, Mapping):
        raise RuleError(f"{value!r} does not map arrival numbers to {to}")
    return {_number(number): each for number, each in value.items()}


def _delay(value: object) -> Mapping[int, float] | float:
    return _delays(value) if isinstance(value, Mapping) else _milliseconds(value)


def _delays(value: object) -> Mapping[int, float]:
    return {number: _milliseconds(each) for number, each in _mapped(value, to="milliseconds").items()}


def _holds(value: object) -> Mapping[int, int]:
    holds = {first: _number(second) for first, second in _mapped(value, to="arrival numbers").items()}
    for first, second in holds.items():
        if second <= first or second in holds:
            raise RuleError(f"{first} cannot wait for {second}; it can for a later one that waits for none")
    return holds


def _bytes(value: object) -> Mapping[int, int]:
    cuts = _mapped(value, to="bytes")
    return {number: _whole(each, range(1 << 28), "a number of bytes") for number, each in cuts.items()}


def _answer_bytes(value: object) -> Mapping[int, int]:
    cuts = _mapped(value, to="bytes")
    allowed = range(_ANSWER_BYTES)
    return {number: _whole(each, allowed, "0 to 3 of an answer's 4 bytes") for number, each in cuts.items()}


def _codes(value: object) -> Mapping[int, int]:
    codes = _mapped(value, to="codes")
    return {number: _whole(each, _CONNACK_CODES, "a refusal of CONNACK, 1 to 5") for number, each in codes.items()}


def _whole(value: object, allowed: range, name: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value not in allowed:
        raise RuleError(f"{value!r} is not {name}")
    return value


def _swaps(value: object) -> tuple[tuple[int, int], ...]:
    if not isinstance(value, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in value):
        raise RuleError(f"{value!r} is not a list of pairs of arrival numbers")
    pairs = sorted(sorted(_number(number) for number in pair) for pair in value)
    last = 0
    for first, second in pairs:
        if first == second or first <= last:
            raise RuleError(f"[{first}, {second}] is no pair of its own; pairs may not overlap")
        last = second
    return tuple((first, second) for first, second in pairs)


def _qos(value: object) -> int:
    return _whole(value, range(3), "a QoS")


def _kind(value: object) -> str:
    return check_name("malformed packet", value, known=MALFORMED)


_READERS: dict[str, Callable[[object], object]] = {
    "drop": _numbers,
    "ignore": _numbers,
    "reject": _numbers,
    "unacknowledged": _numbers,
    "duplicate": _numbers,
    "dup_flag": _boolean,
    "retransmit": _numbers,
    "truncate": _bytes,
    "delay_ms": _delay,
    "swap": _swaps,
    "hold": _holds,
    "foreign": _numbers,
    "misroute": _numbers,
    "per_filter": _boolean,
    "grant_qos": _qos,
    "refuse_subscription": _numbers,
    "refuse_connection": _codes,
    "cut": _bytes,
    "part": _numbers,
    "again": _numbers,
    "cut_answer": _answer_bytes,
    "malformed": _numbers,
    "malformed_answer": _numbers,
    "malformed_kind": _kind,
    "malformed_grant": _numbers,
    "will_lost": _numbers,
    "will_twice": _numbers,
    "will_anyway": _numbers,
    "stall_ms": _delays,
    "answer_ms": _milliseconds,
    "pubcomp_ms": _milliseconds,
    "suback_ms": _milliseconds,
    "connack_ms": _milliseconds,
    "service_ms": _milliseconds,
}
