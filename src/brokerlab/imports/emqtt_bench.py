"""What emqtt-bench prints while it runs: totals, a line for each counter that moved in the last second.

    12s pub total=1180 rate=100.00/sec           since 0.4
    recv(1200): total=1200, rate=100(msg/sec)    before
    12s publish_latency avg=3ms

The logs of a publishing and a subscribing bench may lie in one folder: they are one run.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from brokerlab.imports.base import NS_PER_S, Options, Reading, Source
from brokerlab.imports.samples import Samples

_TOTAL = re.compile(r"(?P<up>(?:\d+[dhms])+)\s+(?P<name>\w+)\s+total=(?P<total>\d+)\s+rate=[\d.]+/sec")
_LATENCY = re.compile(r"(?P<up>(?:\d+[dhms])+)\s+publish_latency\s+avg=(?P<mean>\d+)ms")
_OLD = re.compile(r"(?P<name>sent|recv)\((?P<at>\d+)\): total=(?P<total>\d+), rate=\d+\(msg/sec\)")
_UNITS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_SAID = re.compile(r"(Start with|Starting|Collected|connected:|Dump) ?.*|client\(\d+\): .*")
_TWICE = "emqtt-bench from 0.6.1 on counts a publication of QoS 0 twice; its total stands here as it printed it"


class EmqttBench:
    name = "emqtt-bench"
    about = "emqtt-bench's console output; logs of pub and sub in one folder are one run"
    is_folder_a_run = True

    def read(self, sources: Sequence[Source], options: Options) -> list[Reading]:  # noqa: ARG002 - a format's form
        samples = Samples()
        for source in sources:
            for number, written in source:
                for line in written.split("\r"):
                    if line.strip() and not _add(samples, source.path.stem, line.strip()):
                        source.refuse(number, line, "not a total of emqtt-bench")
        if not samples.times():
            return []
        names = {row["name"] for row in samples.counters}
        published = next((name for name in ("pub_succ", "pub", "sent") if name in names), None)
        told = {"published": (published,)} if published else {}
        told |= {"delivered": ("recv",)} if "recv" in names else {}
        notes = [_TWICE] if published == "pub" else []
        # Its totals and its times count from its start, whichever line is the first that was kept.
        return [replace(samples.reading(told=told, notes=notes, has_wall_clock=False), start_ns=0)]


def _add(samples: Samples, node: str, line: str) -> bool:
    if match := _TOTAL.fullmatch(line):
        samples.tell(node, match["name"], _up_ns(match["up"]), int(match["total"]))
    elif match := _LATENCY.fullmatch(line):
        samples.tell(node, "publish_latency avg ms", _up_ns(match["up"]), int(match["mean"]))
    elif match := _OLD.fullmatch(line):
        samples.tell(node, match["name"], int(match["at"]) * 1_000_000, int(match["total"]))
    else:
        return _SAID.fullmatch(line) is not None
    return True


def _up_ns(text: str) -> int:
    """The time since its start, which it writes as 1m12s."""
    parts = re.findall(r"(\d+)([dhms])", text)
    return sum(int(number) * _UNITS[unit] for number, unit in parts) * NS_PER_S
