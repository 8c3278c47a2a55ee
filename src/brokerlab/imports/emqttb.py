"""emqttb's metrics, as its page for Prometheus shows them: one page or many, one after the other.

    emqttb_published_messages{group="pub/pub"} 12000
    emqttb_received_messages{group="sub/sub"} 11998

The time of a page is a line alone above it, or stands behind its values (milliseconds); else --every says how far
pages are apart.
"""

import re
from collections.abc import Sequence

from brokerlab.imports.base import Options, Reading, Source, every_ns
from brokerlab.imports.samples import Samples
from brokerlab.imports.times import iso_ns, number_ns

_SERIES = re.compile(
    r"(?P<series>[A-Za-z_:][\w:]*(?:\{[^}]*\})?)\s+(?P<value>[-+]?(?:\d[\d.eE+-]*|NaN|Inf))(?:\s+(?P<at>\d+))?"
)
_TOLD = {"published": "emqttb_published_messages", "delivered": "emqttb_received_messages"}


class Emqttb:
    name = "emqttb"
    about = "pages of emqttb's metrics; with times, or --every"
    is_folder_a_run = False

    def read(self, sources: Sequence[Source], options: Options) -> list[Reading]:
        samples = Samples()
        for source in sources:
            _add_pages(samples, source, options)
        if not samples.times():
            return []
        names = sorted({row["name"] for row in samples.counters})
        of = {what: tuple(n for n in names if n.split("{")[0] == metric) for what, metric in _TOLD.items()}
        return [samples.reading(told={what: series for what, series in of.items() if series})]


def _add_pages(samples: Samples, source: Source, options: Options) -> None:
    said_ns: int | None = None
    seen: set[str] = set()
    page = 0
    for number, line in source:
        if line.startswith("#"):
            continue
        if (at_ns := iso_ns(line) or number_ns(line, "s")) is not None:
            said_ns = at_ns
            continue
        match = _SERIES.fullmatch(line)
        if match is None or match["value"] in ("NaN", "Inf", "+Inf", "-Inf"):
            source.refuse(number, line, "not a value of a metric")
            continue
        if not line.startswith("emqttb_"):
            continue  # of its runtime, not of the load
        if match["series"] in seen:
            page, seen = page + 1, set()
        seen.add(match["series"])
        at_ns = number_ns(match["at"], "ms") if match["at"] else said_ns
        if at_ns is None:
            at_ns = page * every_ns([source], options)
        samples.tell("emqttb", match["series"], at_ns, float(match["value"]))
