"""Subscriber logs of the bridge study 004 (X-06): one line a delivery.

time level   id (64 hex)   sent ms   received ms   topic   payload bytes   topic bytes   order
"""

import re
from collections.abc import Sequence

from brokerlab.imports.base import Options, Reading, Source
from brokerlab.imports.messages import About, Arrivals, parts_of, reading_of
from brokerlab.imports.times import number_ns

_BETWEEN = r"[\s,;|]+"
_NUMBER = r"\d+(?:\.\d+)?"
_LINE = re.compile(
    r"(?P<time>\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d\S*)\W*\[?(?P<level>[A-Za-z]+)?\]?[\s,;|:\-]*"
    rf"(?P<id>[0-9a-f]{{64}}){_BETWEEN}(?P<sent>{_NUMBER}){_BETWEEN}(?P<received>{_NUMBER}){_BETWEEN}"
    rf"(?P<topic>\S+?){_BETWEEN}(?P<payload>\d+){_BETWEEN}(?P<topic_bytes>\d+){_BETWEEN}(?P<order>\d+)"
)
_RESOLUTION_NS = 1_000_000  # stamps are milliseconds; digits behind the point are a float's


class SubscriberLog:
    name = "subscriber-log"
    about = "subscriber logs of study 004: one line a delivery, with its 64-hex id"
    is_folder_a_run = False

    def read(self, sources: Sequence[Source], options: Options) -> list[Reading]:
        arrivals = Arrivals()
        for source in sources:
            _add_lines(arrivals, source)
        about = About(qos=options.qos, resolution_ns=_RESOLUTION_NS)
        return [reading_of(part, about, options) for part in parts_of(arrivals, options.split_s) if len(part)]


def _add_lines(arrivals: Arrivals, source: Source) -> None:
    """A gateway is known by the topic that its messages arrive on."""
    for number, line in source:
        match = _LINE.fullmatch(line)
        sent_ns = number_ns(match["sent"], "ms") if match else None
        received_ns = number_ns(match["received"], "ms") if match else None
        if match is None or sent_ns is None or received_ns is None:
            source.refuse(number, line, "not a delivery of study 004")
            continue
        arrivals.add(
            source.path.stem,
            match["topic"],
            match["id"],
            received_ns,
            intended_ns=sent_ns,
            payload_bytes=int(match["payload"]),
        )
