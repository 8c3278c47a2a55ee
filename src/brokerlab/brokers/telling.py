"""Reads the pages on which brokers tell their own counters: the text format of Prometheus, and JSON.

prometheus(text)   one number for each series, by its name with sorted labels, name{a="b",c="d"}; where a name has
                   labelled series only, the name alone is their sum
json_numbers(text) one number for each value of the document, by its path: varz.in_msgs, nodes.0.queued
page_text(address) what a page says, or None; answer(address) the same of JSON: for what is asked again and again, as
                   how many members there are
"""

import base64
import contextlib
import http.client
import json
import math
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

_ANSWER_S = 1.5
_MOST_BYTES = 4 << 20

# A series: name, labels in braces or none, value, and a time that nobody needs.
_SERIES = re.compile(r"^(?P<name>[A-Za-z_:][\w:]*)\s*(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)(?:\s+-?\d+)?\s*$")
_LABEL = re.compile(r'([A-Za-z_]\w*)\s*=\s*"((?:[^"\\]|\\.)*)"')


def prometheus(text: str) -> dict[str, float]:
    """Numbers that are not finite are left out, as are lines that are no series."""
    numbers: dict[str, float] = {}
    sums: dict[str, float] = {}
    for line in text.splitlines():
        found = _SERIES.match(line)  # a comment does not begin with a name
        value = _number(found["value"]) if found else None
        if found is None or value is None:
            continue
        name, labels = found["name"], sorted(_LABEL.findall(found["labels"] or ""))
        if labels:
            sums[name] = sums.get(name, 0.0) + value
            name += "{" + ",".join(f'{label}="{said}"' for label, said in labels) + "}"
        numbers[name] = value
    return sums | numbers


def json_numbers(text: str) -> dict[str, float]:
    """A document that cannot be read is a ValueError."""
    return dict(_walk("", json.loads(text)))


def page_text(address: str, *, within_s: float = _ANSWER_S) -> str | None:
    """What stands at an address (http); None when nobody answers in time."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=within_s)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        connection.request("GET", parts.path + (f"?{parts.query}" if parts.query else ""))
        said = connection.getresponse()
        if said.status == http.client.OK:
            return said.read(_MOST_BYTES).decode("utf-8", "replace")
    return None


def answer(address: str, *, within_s: float = _ANSWER_S) -> Any:
    """The document (JSON) at an address; None when nobody answers in time, or with anything else."""
    with contextlib.suppress(ValueError):
        return json.loads(page_text(address, within_s=within_s) or "")
    return None


def basic(user: str, password: str) -> dict[str, str]:
    """The header of HTTP's Basic authentication, for Node.page_headers."""
    return {"Authorization": "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()}


def _walk(path: str, value: Any) -> Iterator[tuple[str, float]]:
    if isinstance(value, dict):
        parts = list(value.items())
    elif isinstance(value, list):
        parts = list(enumerate(value))
    else:
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
            yield path, float(value)
        return
    for name, part in parts:
        yield from _walk(f"{path}.{name}" if path else str(name), part)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
