"""What a bridge counts, as a table for people and as text for Prometheus."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields

_PREFIX = "brokerlab_bridge_"


@dataclass(slots=True)
class Counters:
    """Of one route; `in_flight` and `waiting_bytes` are of the moment, all else only grows."""

    route: str
    received: int = field(default=0, metadata={"help": "messages that came from the source"})
    received_bytes: int = field(default=0, metadata={"help": "their payloads"})
    published: int = field(default=0, metadata={"help": "messages handed to the target, dead letters among them"})
    acknowledged: int = field(default=0, metadata={"help": "messages of QoS 1 and 2 that the target acknowledged"})
    dropped: int = field(default=0, metadata={"help": "messages that the transformer let go"})
    looped: int = field(default=0, metadata={"help": "messages that came back, and were not passed on again"})
    suspected: int = field(default=0, metadata={"help": "times that messages came as often as in a circle of bridges"})
    dead: int = field(default=0, metadata={"help": "bad messages, sent to the dead-letter topic"})
    refused: int = field(default=0, metadata={"help": "dead letters that the target refused too"})
    repeated: int = field(default=0, metadata={"help": "messages that the source sent again, known already"})
    resent: int = field(default=0, metadata={"help": "messages that were sent to the target again"})
    paused: int = field(default=0, metadata={"help": "times that reading stopped until the target had taken more"})
    reconnected: int = field(default=0, metadata={"help": "connections that were lost and made again"})
    sessions_lost: int = field(default=0, metadata={"help": "sessions that a broker did not keep"})
    in_flight: int = field(default=0, metadata={"help": "messages that the target has not acknowledged yet"})
    waiting_bytes: int = field(default=0, metadata={"help": "bytes in memory for the target"})


_GAUGES = ("in_flight", "waiting_bytes")
NAMES = tuple(each.name for each in fields(Counters) if each.name != "route")


def prometheus_text(counters: Sequence[Counters]) -> str:
    """The text format of Prometheus, version 0.0.4."""
    lines: list[str] = []
    for each in fields(Counters):
        if each.name == "route":
            continue
        is_gauge = each.name in _GAUGES
        name = _PREFIX + each.name + ("" if is_gauge else "_total")
        lines.append(f"# HELP {name} {each.metadata['help']}")
        lines.append(f"# TYPE {name} {'gauge' if is_gauge else 'counter'}")
        lines += [f'{name}{{route="{one.route}"}} {getattr(one, each.name)}' for one in counters]
    return "\n".join(lines) + "\n"


def table_rows(counters: Sequence[Counters]) -> list[tuple[str, ...]]:
    """A row for each counter that is not zero everywhere, a column for each route."""
    rows = [(name.replace("_", " "), *(f"{getattr(one, name):,}" for one in counters)) for name in NAMES]
    return [row for row in rows if row[0] in ("received", "published") or any(cell != "0" for cell in row[1:])]
