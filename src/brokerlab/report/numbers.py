"""Numbers as people read them: a few significant digits, thousands apart, a dash for what is not known.

A time is no more exact than the arrivals that it is made of, and the resolution says how much earlier these may have
been. One rule for every time that is printed:

    the last digit shown       that of the resolution's first: 34.6 ms with a resolution of 2 ms is 35, with 0.03 34.60
    ≤ and two digits           where the resolution is a fifth of the value or more: what is known is an upper bound
    value ± resolution         the same where the truth may be on both sides, as with jitter
"""

import math
from collections.abc import Mapping
from typing import Any

NOT_KNOWN = "–"
_EXACT = 99  # decimals that nothing has
_COARSE = 5


def known(value: object) -> float | None:
    """The number, or None for null and NaN."""
    if not isinstance(value, int | float) or math.isnan(value):
        return None
    return float(value)


def decimals(value: float, *, digits: int = 3) -> int:
    """How many decimals show `digits` significant digits of the value."""
    if value == 0 or not math.isfinite(value):
        return 0
    return max(0, digits - 1 - math.floor(math.log10(abs(value))))


def fixed(value: float, places: int) -> str:
    """The value with that many decimals and a true minus sign; with fewer than none tens and hundreds are rounded."""
    text = f"{round(value, places) if places < 0 else value:,.{max(places, 0)}f}"
    is_zero = not text.strip("-0.,")
    return text.lstrip("-") if is_zero else text.replace("-", "−")


def significant(value: object, *, digits: int = 3) -> str:
    number = known(value)
    return NOT_KNOWN if number is None else fixed(number, decimals(number, digits=digits))


def last_place(resolution: float | None) -> int:
    """The last decimal that such a resolution allows, negative before the point; many where it is 0 or not known."""
    return -math.floor(math.log10(resolution)) if resolution else _EXACT


def is_coarse(value: float, resolution: float | None) -> bool:
    """Whether so little is known of the value that a digit of it would say too much."""
    return bool(resolution) and _COARSE * (resolution or 0.0) >= abs(value)


def timed(value: float, *, resolution: float | None, places: int, is_bound: bool = True) -> str:
    """A time by the rule above; `places` are the decimals that it would have if it were exact."""
    if is_coarse(value, resolution):
        if not is_bound:
            coarse = resolution or 0.0
            at = min(places, decimals(coarse, digits=1))
            return f"{fixed(value, at)} ± {fixed(coarse, at)}"
        at = 1 - math.floor(math.log10(value)) if value > 0 else 0
        least = math.ceil(round(value * 10.0**at, 6)) / 10.0**at  # 1.1 is a hair above 11 tenths
        return f"≤ {fixed(least, max(at, 0))}"
    return fixed(value, min(places, last_place(resolution)))


def time_text(value: object, resolution: object, *, is_bound: bool = True) -> str:
    """A time of a table as `significant`, but no more exact than it is."""
    number = known(value)
    if number is None:
        return NOT_KNOWN
    return timed(number, resolution=known(resolution), places=decimals(number), is_bound=is_bound)


def no_finer(value: object, resolution: object, *, digits: int = 3) -> str:
    """As `significant`, without the digits that such a resolution does not allow: for the ends of intervals."""
    number = known(value)
    if number is None:
        return NOT_KNOWN
    return fixed(number, min(decimals(number, digits=digits), last_place(known(resolution))))


def latency_text(row: Mapping[str, Any], name: str, *, is_bound: bool = True) -> str:
    """A column of a row of table latency; the largest is as exact as the coarsest arrival, the others as the mean."""
    resolution = row.get("resolution_max_ms" if name == "max_ms" else "resolution_mean_ms")
    return time_text(row[name], resolution, is_bound=is_bound)


def brief(value: object) -> str:
    """As `significant`, without zeros at the end: for what was set rather than measured."""
    text = significant(value, digits=6)
    return text.rstrip("0").rstrip(".") if "." in text else text


def count(value: object) -> str:
    number = known(value)
    return NOT_KNOWN if number is None else fixed(number, 0)


def plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def listed(names: list[str], *, last: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    if len(names) < 2:
        return "".join(names)
    return ", ".join(names[:-1]) + f" {last} " + names[-1]
