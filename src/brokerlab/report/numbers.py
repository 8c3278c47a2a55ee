"""Numbers as people read them: a few significant digits, thousands apart, a dash for what is not known."""

import math

NOT_KNOWN = "–"


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
    """The value with that many decimals and a true minus sign."""
    text = f"{value:,.{places}f}"
    is_zero = not text.strip("-0.,")
    return text.lstrip("-") if is_zero else text.replace("-", "−")


def significant(value: object, *, digits: int = 3) -> str:
    number = known(value)
    return NOT_KNOWN if number is None else fixed(number, decimals(number, digits=digits))


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
