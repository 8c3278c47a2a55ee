"""The samples of MQTT Blaster's authors (S-13): a line of numbers a sample, without a time.

    CPU %, broker CPU %, disk read, disk write, swap kB, memory %, network rx Mbit/s, tx Mbit/s[, latency ms]

Latency is the round trip of a message that one client sends to itself beside the load (S-12): a probe of ours.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from brokerlab.imports.base import Options, Reading, Source, every_ns
from brokerlab.imports.samples import Samples
from brokerlab.record.schemas import DELIVERIES, PUBLICATIONS

_NAMES = ("cpu %", "broker cpu %", "disk read", "disk write", "swap kB", "memory %", "net rx Mbit/s", "net tx Mbit/s")
_WIDTHS = (len(_NAMES), len(_NAMES) + 1)
_RESOLUTION_NS = 10_000  # the tables print hundredths of a millisecond


class Blaster:
    name = "blaster"
    about = "samples of study 002: CPU, broker CPU, disk, swap, memory, network, latency; needs --every"
    is_folder_a_run = False

    def read(self, sources: Sequence[Source], options: Options) -> list[Reading]:
        samples, round_trips = Samples(), list[tuple[int, float]]()
        for source in sources:
            for number, line in source:
                values = _numbers(line)
                if values is None:
                    is_header = source.lines == 1 and len(line.split(",")) in _WIDTHS
                    if not is_header:
                        source.refuse(number, line, f"not {_WIDTHS[0]} or {_WIDTHS[1]} numbers")
                    continue
                at_ns = (number - 1) * every_ns([source], options)
                _add(samples, values, at_ns)
                if len(values) > len(_NAMES):
                    round_trips.append((at_ns, values[-1]))
        if not samples.times():
            return []
        reading = samples.reading(has_wall_clock=False)
        return [_with_probe(reading, round_trips) if round_trips else reading]


def _numbers(line: str) -> list[float] | None:
    fields = [field.strip() for field in line.rstrip(",").split(",")]
    if len(fields) not in _WIDTHS:
        return None
    try:
        return [float(field) for field in fields]
    except ValueError:
        return None


def _add(samples: Samples, values: Sequence[float], at_ns: int) -> None:
    for name, value in zip(_NAMES, values, strict=False):
        samples.tell("machine", name, at_ns, value)
    samples.use("broker/0", at_ns, cpu_percent=values[1])


def _with_probe(reading: Reading, round_trips: Sequence[tuple[int, float]]) -> Reading:
    """Each sample tells the last round trip: sent that long before it was told."""
    sent: list[dict[str, Any]] = []
    heard: list[dict[str, Any]] = []
    for seq, (at_ns, latency_ms) in enumerate(round_trips):
        intended_ns = at_ns - round(latency_ms * 1e6)
        message = {"publisher": 0, "seq": seq, "intended_ns": intended_ns}
        sent.append({**message, "topic": "latency", "sent_ns": intended_ns})
        heard.append({**message, "subscriber": 0, "received_ns": at_ns, "resolution_ns": _RESOLUTION_NS})
    start_ns = min(reading.start_ns, *(row["intended_ns"] for row in sent))
    return replace(
        reading,
        raw={
            **reading.raw,
            "probe_publications": pa.Table.from_pylist(sent, schema=PUBLICATIONS),
            "probe_deliveries": pa.Table.from_pylist(heard, schema=DELIVERIES),
        },
        clients={"probe": {"publisher": 0, "topic": "latency", "granted_qos": None}},
        start_ns=start_ns,
        end_ns=reading.end_ns + 1,
    )
