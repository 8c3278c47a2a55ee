"""The summary of mqtt-stresser: totals and rates of its clients, without any time.

    # Results
    Published Messages: 15000 (100%)
    Received Messages:  15000 (100%)
    # Publishing Throughput
    Median: 42093 msg/sec

Its «receiving throughput» begins when all is published, so it is the speed of emptying a queue.
"""

import re
from collections.abc import Sequence

from brokerlab.imports.base import Options, Reading, Source
from brokerlab.imports.samples import Samples

_TITLE = re.compile(r"# (?P<title>.+)")
_FIGURE = re.compile(r"(?:- )?(?P<name>[A-Za-z /]+):\s+(?P<value>\d+)(?: \(-?(?:\d+|NaN|\+?Inf)%\)| msg/sec)?")
_BUCKET = re.compile(r"< (?P<limit>-?\d+) msg/sec\s+(?P<share>\d+)%")
_PROGRESS = re.compile(r"\d+ worker started.*|\.+")
_PUBLISHED, _RECEIVED = "Published Messages", "Received Messages"
_DRAINED = "the receiving rates begin when all is published: they are rates of emptying a queue"


class MqttStresser:
    name = "mqtt-stresser"
    about = "mqtt-stresser's summary"
    is_folder_a_run = False

    def read(self, sources: Sequence[Source], options: Options) -> list[Reading]:  # noqa: ARG002 - a format's form
        samples = Samples()
        for source in sources:
            title = ""
            for number, line in source:
                if match := _TITLE.fullmatch(line):
                    title = match["title"]
                elif match := _FIGURE.fullmatch(line):
                    name = match["name"].strip()
                    is_rate = "msg/sec" in line
                    samples.tell(self.name, f"{title}: {name}" if is_rate else name, 0, float(match["value"]))
                elif match := _BUCKET.fullmatch(line):
                    samples.tell(self.name, f"{title}: % of clients below {match['limit']}/s", 0, float(match["share"]))
                elif not _PROGRESS.fullmatch(line):
                    source.refuse(number, line, "not a figure of mqtt-stresser")
        names = {row["name"] for row in samples.counters}
        if not {_PUBLISHED, _RECEIVED} <= names:
            return []
        told = {"published": (_PUBLISHED,), "delivered": (_RECEIVED,)}
        return [samples.reading(told=told, notes=(_DRAINED,), has_wall_clock=False)]
