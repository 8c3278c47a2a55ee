"""MQTTLoader: its record of every sending and receipt, or the summary that it prints.

    1599643916401359,,,                        record: the start, in µs since 1970
    1599643916416823,ml-EeiE-p-00001,S,        a sending
    1599643916419123,ml-EeiE-s-00000,R,3165    a receipt, and its latency in µs

A receipt does not say which sending it is of, so what was lost or came twice is not known.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from brokerlab.imports.base import NS_PER_S, Options, Reading, Source
from brokerlab.imports.messages import About, Arrivals, reading_of
from brokerlab.imports.samples import Samples
from brokerlab.record.schemas import COUNTERS

_RECORD = re.compile(r"(?P<at>\d+),(?P<client>[^,]*),(?P<event>[SR]?),(?P<latency>-?\d*)")
_PART = re.compile(r"-+(Publisher|Subscriber)-+")
_FIGURE = re.compile(r"(?P<name>[A-Za-z ]+)(?: \[(?P<unit>[^\]]+)\])?:\s*(?P<values>[\d.,\s]+)")
_PER_SECOND = "Per second throughput"
_TOLD = {"Publisher": "published", "Subscriber": "delivered"}
_RESOLUTION_NS = 1_000


class MqttLoader:
    name = "mqttloader"
    about = "MQTTLoader's record file (mqttloader_*.csv), or its summary"
    is_folder_a_run = True

    def read(self, sources: Sequence[Source], options: Options) -> list[Reading]:
        arrivals, samples = Arrivals(), Samples()
        sent_ns: list[int] = []
        for source in sources:
            part = ""
            for number, line in source:
                if match := _RECORD.fullmatch(line):
                    _add_record(arrivals, sent_ns, match)
                elif match := _PART.fullmatch(line):
                    part = match[1]
                elif (match := _FIGURE.fullmatch(line)) and part:
                    _add_figure(samples, part, match)
                else:
                    source.refuse(number, line, "neither a record nor a figure of MQTTLoader")
        if len(arrivals):
            about = About(qos=options.qos, resolution_ns=_RESOLUTION_NS)
            return [_with_sendings(reading_of(arrivals, about, options), sorted(sent_ns))]
        return [_summary(samples)] if samples.times() else []


def _add_record(arrivals: Arrivals, sent_ns: list[int], match: re.Match[str]) -> None:
    at_ns = int(match["at"]) * 1_000
    if match["event"] == "S":
        sent_ns.append(at_ns)
    elif match["event"] == "R" and match["latency"]:
        intended_ns = at_ns - int(match["latency"]) * 1_000
        arrivals.add(match["client"], "publishers", str(len(arrivals)), at_ns, intended_ns=intended_ns)


def _with_sendings(reading: Reading, sent_ns: Sequence[int]) -> Reading:
    """The sendings as a count that grew: they have no identity."""
    unknown = reading.unknown | {"identity", "expected"}
    if not sent_ns:
        return replace(reading, unknown=unknown | {"published"})
    rows = [{"node": "mqttloader", "name": "sent", "at_ns": at, "value": n} for n, at in enumerate(sent_ns, start=1)]
    return replace(
        reading,
        raw={**reading.raw, "counters": pa.Table.from_pylist(rows, schema=COUNTERS)},
        unknown=unknown - {"published"},
        told={"published": ("sent",)},
        start_ns=min(reading.start_ns, sent_ns[0]),
        end_ns=max(reading.end_ns, sent_ns[-1] + 1),
    )


def _add_figure(samples: Samples, part: str, match: re.Match[str]) -> None:
    """A figure is told at the end; throughput of single seconds is a total that grows."""
    name = match["name"].strip()
    values = [float(value) for value in re.findall(r"\d+(?:\.\d+)?", match["values"])]
    if name != _PER_SECOND:
        unit = f" {match['unit']}" if match["unit"] else ""
        samples.tell(part, f"{name}{unit}", 0, values[-1])
        return
    total = 0.0
    for second, value in enumerate(values, start=1):
        total += value
        samples.tell(part, _TOLD[part], second * NS_PER_S, total)


def _summary(samples: Samples) -> Reading:
    names = {row["name"] for row in samples.counters}
    told = {what: (what,) for what in _TOLD.values() if what in names}
    end_ns = max(samples.times())
    for row in samples.counters:  # what was printed at the end is told at the end
        row["at_ns"] = row["at_ns"] or end_ns
    return replace(samples.reading(told=told, has_wall_clock=False), start_ns=0)
