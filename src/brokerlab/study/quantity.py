"""Quantities as people write them (`64 B`, `2.5 s`, `200/s`, `70 %`), read into one unit per dimension.

    size       bytes               duration   seconds
    rate       events per second   percent    percent
    bit rate   bits per second

Arithmetic is exact until the last step, so that `5 ms` is 5.0 milliseconds and 0.005 seconds alike.
A bare number is refused: the reader of a study should not have to know a default unit.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from brokerlab.study.nearest import listed, nearest
from brokerlab.study.problems import RuleError

# The digits are bounded, so that no text can ask for a number that takes minutes to compute.
_QUANTITY = re.compile(r"^\s*([+-]?\d{1,40}(?:\.\d{1,40})?(?:[eE][+-]?\d{1,3})?)\s*([^\s\d.,_].*?)?\s*$", re.ASCII)


@dataclass(frozen=True, slots=True)
class Dimension:
    """A kind of quantity: its units by what one of them is in the dimension's own unit."""

    noun: str
    own_unit: str
    units: Mapping[str, Fraction]
    spoken: Mapping[str, str] = field(default_factory=dict)  # what people also write -> the unit meant

    def written(self, number: str, unit: str) -> str:
        return f"{number}{unit}" if unit.startswith("/") else f"{number} {unit}"

    def example(self, number: str) -> str:
        return f'"{self.written(number, self.own_unit)}"'


SIZE = Dimension(
    noun="size",
    own_unit="B",
    units={
        "B": Fraction(1),
        **{f"{prefix}B": Fraction(1000**power) for power, prefix in enumerate("kMGT", start=1)},
        **{f"{prefix}iB": Fraction(1024**power) for power, prefix in enumerate("KMGT", start=1)},
    },
    spoken={"byte": "B", "bytes": "B", "k": "kB", "m": "MB", "g": "GB"},
)

DURATION = Dimension(
    noun="duration",
    own_unit="s",
    units={
        "ns": Fraction(1, 10**9),
        "us": Fraction(1, 10**6),
        "µs": Fraction(1, 10**6),  # the micro sign of keyboards
        "μs": Fraction(1, 10**6),  # the Greek letter, which some editors write for it
        "ms": Fraction(1, 10**3),
        "s": Fraction(1),
        "min": Fraction(60),
        "h": Fraction(3600),
    },
    spoken={
        **dict.fromkeys(("sec", "secs", "second", "seconds"), "s"),
        **dict.fromkeys(("m", "mins", "minute", "minutes"), "min"),
        **dict.fromkeys(("hr", "hour", "hours"), "h"),
        **dict.fromkeys(("msec", "millis", "milliseconds"), "ms"),
        **dict.fromkeys(("usec", "micros", "microseconds"), "us"),
    },
)

RATE = Dimension(
    noun="rate",
    own_unit="/s",
    units={"/s": Fraction(1), "/min": Fraction(1, 60), "/h": Fraction(1, 3600)},
    spoken={"hz": "/s", "per s": "/s", "msg/s": "/s", "msgs/s": "/s", "/sec": "/s", "/m": "/min", "msg/min": "/min"},
)

PERCENT = Dimension(
    noun="percentage", own_unit="%", units={"%": Fraction(1)}, spoken={"percent": "%", "pct": "%", "per cent": "%"}
)

BIT_RATE = Dimension(
    noun="bit rate",
    own_unit="bit/s",
    units={f"{prefix}bit/s": Fraction(1000**power) for power, prefix in enumerate(["", "k", "M", "G"])},
    spoken={"bps": "bit/s", "kbps": "kbit/s", "mbps": "Mbit/s", "mb/s": "Mbit/s", "gbps": "Gbit/s"},
)


def read_quantity(written: object, dimension: Dimension) -> Fraction:
    """The quantity in the dimension's own unit, exactly."""
    if isinstance(written, int | float) and not isinstance(written, bool):
        raise _without_unit(str(written), dimension)
    match = _QUANTITY.match(written) if isinstance(written, str) else None
    if match is None:
        raise RuleError(f"must be a {dimension.noun}, such as {dimension.example('5')}")
    number, unit = match.groups()
    if unit is None:
        raise _without_unit(number, dimension)
    if unit not in dimension.units:
        raise _unknown_unit(number, unit, dimension)
    return Fraction(number) * dimension.units[unit]


def read_bytes(written: object) -> int:
    """A size in bytes."""
    size = read_quantity(written, SIZE)
    if size.denominator != 1:
        raise RuleError("must be a whole number of bytes")
    return int(size)


def read_seconds(written: object) -> float:
    return _as_float(read_quantity(written, DURATION))


def read_milliseconds(written: object) -> float:
    """A duration in milliseconds, for the few values whose name says so."""
    return _as_float(read_quantity(written, DURATION) * 1000)


def read_per_s(written: object) -> float:
    return _as_float(read_quantity(written, RATE))


def read_percent(written: object) -> float:
    return _as_float(read_quantity(written, PERCENT))


def read_bits_per_s(written: object) -> float:
    return _as_float(read_quantity(written, BIT_RATE))


def bytes_text(size_bytes: int) -> str:
    """The size in the largest unit of which it is a whole number: "64 B", "1 KiB", "5 MB"."""
    fitting = [(factor, unit) for unit, factor in SIZE.units.items() if size_bytes % factor == 0 and size_bytes]
    factor, unit = max(fitting, default=(Fraction(1), "B"))
    return SIZE.written(str(size_bytes // factor), unit)


def seconds_text(duration_s: float) -> str:
    return DURATION.written(number_text(duration_s), "s")


def milliseconds_text(duration_ms: float) -> str:
    return DURATION.written(number_text(duration_ms), "ms")


def per_s_text(rate_per_s: float) -> str:
    return RATE.written(number_text(rate_per_s), "/s")


def percent_text(share_percent: float) -> str:
    return PERCENT.written(number_text(share_percent), "%")


def bits_per_s_text(rate_bits_per_s: float) -> str:
    """The rate in the largest unit of which it is a whole number: "1 Mbit/s", "2.5 bit/s"."""
    fitting = [(factor, unit) for unit, factor in BIT_RATE.units.items() if rate_bits_per_s % int(factor) == 0]
    factor, unit = max(fitting, default=(Fraction(1), "bit/s"))
    return BIT_RATE.written(number_text(rate_bits_per_s / int(factor)), unit)


def number_text(number: float) -> str:
    """The shortest text that reads back to the same number, without a needless ".0"."""
    return repr(float(number)).removesuffix(".0")


def _as_float(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        raise RuleError("is too large a number") from None


def _without_unit(number: str, dimension: Dimension) -> RuleError:
    return RuleError(f"a {dimension.noun} needs its unit: write {dimension.example(number)}")


def _unknown_unit(number: str, unit: str, dimension: Dimension) -> RuleError:
    close = dimension.spoken.get(unit.casefold()) or nearest(unit, dimension.units)
    rule = f'unknown unit "{unit}" of a {dimension.noun}'
    if close is None:
        return RuleError(f"{rule}; known: {listed(dimension.units)}")
    return RuleError(rule, nearest_valid=dimension.written(number, close))
