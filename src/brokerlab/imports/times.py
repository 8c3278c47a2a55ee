"""Times as foreign programs write them, as nanoseconds since 1970."""

import re
from datetime import UTC, datetime

from brokerlab.imports.base import NS_PER_S

_ISO = re.compile(
    r"(?P<date>\d{4}-\d\d-\d\d)[T \-](?P<time>\d\d:\d\d:\d\d)(?:[.,](?P<part>\d{1,9}))?"
    r"\s?(?P<zone>Z|[+-]\d\d:?\d\d)?"
)
_UNITS = {"s": NS_PER_S, "ms": 1_000_000, "us": 1_000, "µs": 1_000, "ns": 1}


def iso_ns(text: str) -> int | None:
    """A date and time of day, to the nanosecond; without a zone it is UTC. None if it is something else."""
    match = _ISO.fullmatch(text.strip())
    if match is None:
        return None
    zone = (match["zone"] or "Z").replace("Z", "+0000").replace(":", "")
    try:
        whole = datetime.strptime(f"{match['date']} {match['time']} {zone}", "%Y-%m-%d %H:%M:%S %z")
    except ValueError:
        return None
    since = whole - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86400 + since.seconds) * NS_PER_S + int((match["part"] or "0").ljust(9, "0"))


def number_ns(text: str, unit: str) -> int | None:
    """A count of some unit, with or without a fraction, exactly; None if it is no number."""
    match = re.fullmatch(r"(-?)(\d{1,19})(?:\.(\d+))?", text.strip())
    if match is None:
        return None
    per = _UNITS[unit]
    fraction = (match[3] or "").ljust(9, "0")[:9]
    value = int(match[2]) * per + int(fraction) * per // NS_PER_S
    return -value if match[1] else value


def is_unit(unit: str) -> bool:
    return unit in _UNITS


def unit_ns(unit: str) -> int:
    return _UNITS[unit]
