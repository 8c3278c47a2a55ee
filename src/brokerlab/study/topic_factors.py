"""The factors of topics: how many, how deep, how long, and whether their last messages are retained."""

from dataclasses import replace

from brokerlab.study import quantity
from brokerlab.study.factor import ON, FactorKind, read_switch, read_whole
from brokerlab.study.problems import RuleError
from brokerlab.study.values import Level, Workload

_MOST_TOPICS = 1_000_000
_MOST_LEVELS = 1_000
_LONGEST_TOPIC_BYTES = 65_535  # MQTT 3.1.1 section 4.7.3


def read_topics(written: object) -> int:
    """How many topics each publisher has."""
    return read_whole(written, least=1, most=_MOST_TOPICS)


def read_depth(written: object) -> int:
    """To how many levels topics are padded."""
    return read_whole(written, least=1, most=_MOST_LEVELS)


def read_length_bytes(written: object) -> int:
    """To how many bytes topics are padded; a number without a unit is bytes, too."""
    is_number = isinstance(written, int) and not isinstance(written, bool)
    length_bytes = quantity.read_bytes(f"{written} B" if is_number else written)
    if not 1 <= length_bytes <= _LONGEST_TOPIC_BYTES:
        raise RuleError(f"must be from 1 B to {_LONGEST_TOPIC_BYTES} B, the longest topic of MQTT")
    return length_bytes


def _with_count(workload: Workload, level: Level) -> Workload:
    return replace(workload, topics=replace(workload.topics, count=int(level)))


def _with_depth(workload: Workload, level: Level) -> Workload:
    return replace(workload, topics=replace(workload.topics, depth=int(level)))


def _with_length(workload: Workload, level: Level) -> Workload:
    return replace(workload, topics=replace(workload.topics, length_bytes=int(level)))


def _length_text(level: Level) -> str:
    return quantity.bytes_text(int(level))


def _with_retain(workload: Workload, level: Level) -> Workload:
    return replace(workload, retain=level == ON)


KINDS = (
    FactorKind("topics", ("topics", "count"), read_topics, int, _with_count),
    FactorKind("depth", ("topics", "depth"), read_depth, int, _with_depth),
    FactorKind("length", ("topics", "length"), read_length_bytes, _length_text, _with_length),
    FactorKind("retain", ("retain",), read_switch, str, _with_retain),
)
