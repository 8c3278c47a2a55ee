"""Records and fields of CSV (RFC 4180), byte for byte.

A quote opens a field only at the field's start; anywhere else, as in `5" pipe`, it is a character like others. So the
cut into records and Python's `csv`, which reads their fields, agree on what is quoted.
"""

import csv
import re
from codecs import BOM_UTF8

import numpy as np
from numpy.typing import NDArray

from brokerlab.study.problems import RuleError

Longs = NDArray[np.int64]

_LONGEST_FIELD = 2**31 - 1  # a field may fill a message, which MQTT bounds; `csv` itself stops at 131,072 characters
# The quote comes first, and what was before it is looked up behind it: so `re` leaps from quote to quote.
_QUOTED = re.compile(rb'"(?:(?<![^,\n]")|(?<=\A' + BOM_UTF8 + rb'"))[^"]*+(?:""[^"]*+)*+("|\Z)')

csv.field_size_limit(_LONGEST_FIELD)


def joined(data: bytes, begins: Longs, ends: Longs) -> tuple[Longs, Longs]:
    """The records that the lines of a file are: those that a quoted field goes over are one."""
    spans = np.fromiter((at for found in _QUOTED.finditer(data) for at in _closed(data, found)), dtype=np.int64)
    if not spans.size:
        return begins, ends
    opened = np.searchsorted(spans[::2], ends, side="left")
    is_inside = opened > np.searchsorted(spans[1::2], ends, side="right")
    is_first = np.concatenate([[True], ~is_inside[:-1]])
    return begins[is_first], ends[~is_inside]


def _closed(data: bytes, found: re.Match[bytes]) -> tuple[int, int]:
    """From where to where a quoted field goes, which must have an end."""
    if not found[1]:
        line = data.count(b"\n", 0, found.start()) + 1
        raise RuleError(f"a quoted field of the file, which begins in its line {line}, does not end")
    return found.span()


def fields(line: bytes, what: str) -> list[str]:
    """The fields of one record; RuleError says `what` cannot be read."""
    try:
        return next(csv.reader([line.decode("utf-8", "replace").rstrip("\r")]))
    except csv.Error as problem:
        rule = f"{what} of the file has a carriage return outside quotes; lines of CSV end with LF or CR LF (RFC 4180)"
        raise RuleError(rule if b"\r" in line else f"{what} of the file is no CSV: {problem}") from problem
