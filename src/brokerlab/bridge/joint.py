"""The bridge as a joint between two nodes of the lab: what to start, and what it reads.

    joint = joint_between("0-1", Side("10.0.0.1:1883"), Side("10.0.0.2:1883"), subscribe=["#"], qos=1)
    joint.argv     the command, to be started in a folder that holds joint.files; it stays in the foreground
    joint.files    name -> text

It says `joined` on its standard output, a line of its own, when every connection stands and every subscription is
granted; before that it tries again for as long as it takes. SIGTERM ends it cleanly.
"""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

JOINED = "joined"  # the line that says that messages pass
CONFIG = "bridge.yaml"
COUNTERS = "counters.prom"  # beside it, where they are asked for
ROUTE, BACK = "joint", "joint-back"
_EVERY = "100 ms"


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two brokers, and how the bridge gets in."""

    address: str  # host:port
    protocol: str = "3.1.1"  # with 5.0 on both sides no memory is needed to know our own messages again
    transport: str = "tcp"
    authority: Path | None = None  # who must have signed its certificate (PEM)
    user: str | None = None
    password: str | None = None  # env:NAME


@dataclass(frozen=True, slots=True)
class Joint:
    argv: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)


def joint_between(
    name: str,
    first: Side,
    second: Side,
    *,
    subscribe: Sequence[str] = ("#",),
    qos: int = 2,
    both: bool = True,
    options: Mapping[str, Any] | None = None,
    beside: Sequence[str] = (),
    is_counted: bool = False,
) -> Joint:
    """A bridge that passes all topics below the filters from the first to the second, and back if `both`.

    `options` are further keys of its route. What is below the filters `beside` passes both ways as it is.

    `name` must be another for each bridge at one broker: the bridge's client identifiers begin with it.
    """
    content: dict[str, Any] = {
        "bridge": 1,
        "name": name,
        "brokers": {"first": _broker(first), "second": _broker(second)},
        "routes": {ROUTE: _route("first", "second", subscribe, qos=qos, options=options)},
    }
    if both:
        content["routes"][BACK] = _route("second", "first", subscribe, qos=qos, options=options)
    if beside:
        content["routes"]["beside"] = _route("first", "second", beside, qos=qos) | {"both": True}
    if is_counted:
        content["metrics"] = {"file": COUNTERS, "every": _EVERY}
    # JSON is YAML, and quotes what needs it.
    return Joint((sys.executable, "-m", "brokerlab.bridge", CONFIG), {CONFIG: json.dumps(content, indent=2) + "\n"})


def _route(
    start: str, end: str, subscribe: Sequence[str], *, qos: int, options: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    return {"from": start, "to": end, "subscribe": list(subscribe), "qos": qos} | dict(options or {})


def _broker(side: Side) -> dict[str, Any]:
    written: dict[str, Any] = {"address": side.address, "protocol": side.protocol, "transport": side.transport}
    for key in ("authority", "user", "password"):
        if (value := getattr(side, key)) is not None:
            written[key] = str(value)
    return written
