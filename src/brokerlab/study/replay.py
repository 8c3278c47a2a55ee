"""Files that are replayed: one record a message, byte for byte.

    line    a line without its end
    csv     a line, or several where a quoted field goes over them; the first is a header, unless the study says no
    jsonl   a line that holds JSON

A record keeps every byte of its own, a carriage return before the end of the line included. The line end that closes
the file begins no record, and neither does an empty line of csv and jsonl. A byte order mark belongs to the first line:
it is left out with a header, and sent with a record.
"""

import hashlib
import json
import math
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokerlab.study import rfc4180
from brokerlab.study.problems import RuleError, refuse_unknown
from brokerlab.study.values import Arrivals, Phases, Record, Replay, Split, Workload

Longs = NDArray[np.int64]

_AFTER_LAST_S = 0.001  # the last message is due within the phase
_LONGEST_S = 9e9  # from the first record to the last: what nanoseconds in 64 bits hold, nearly three centuries


@dataclass(frozen=True, slots=True)
class Records:
    """The records of a file in their order, and what was asked to be read from them."""

    data: bytes
    begins: Longs
    ends: Longs
    offsets_ns: Longs | None  # since the earliest, by the column or key `time`
    keys: tuple[str, ...] | None  # by the column or key `key`

    @property
    def count(self) -> int:
        return self.begins.size

    @property
    def longest_bytes(self) -> int:
        return int((self.ends - self.begins).max())


def read_bytes(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except FileNotFoundError as problem:
        raise RuleError(f"no such file: {file}") from problem
    except OSError as problem:
        raise RuleError(f"{file} cannot be read: {problem.strerror}") from problem


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def records_of(replay: Replay) -> Records:
    """The records, if the file is the one that the study read; RuleError where it is gone or has changed."""
    data = read_bytes(replay.file)
    if (now := digest(data)) != replay.sha256:
        raise RuleError(f"{replay.file} has changed: its SHA-256 is {now}, and the study has {replay.sha256}")
    return _parsed(data, replay)


@lru_cache(maxsize=4)
def _parsed(data: bytes, replay: Replay) -> Records:
    return parse(data, record=replay.record, header=replay.header, time=replay.time, key=replay.key)


def parse(data: bytes, *, record: Record, header: bool, time: str | None, key: str | None) -> Records:
    """Cuts a file into records; RuleError names the line that cannot be read."""
    begins, ends = _lines(data)
    if record is Record.CSV:
        begins, ends = rfc4180.joined(data, begins, ends)
        if header and data.startswith(BOM_UTF8):
            begins[0] += len(BOM_UTF8)  # of the file, not of its first column's name
    if record is not Record.LINE:
        is_filled = np.array([bool(data[a:b].strip()) for a, b in zip(begins, ends, strict=True)], dtype=np.bool_)
        begins, ends = begins[is_filled], ends[is_filled]
    has_header = record is Record.CSV and header and begins.size > 0
    names = rfc4180.fields(data[begins[0] : ends[0]], "the header") if has_header else []
    if names:
        begins, ends = begins[1:], ends[1:]
    if not begins.size:
        raise RuleError("the file holds no record")
    if names:
        _refuse_wrong_header(names, fields=len(rfc4180.fields(data[begins[0] : ends[0]], "record 1")))
        _refuse_cut_off(data, begins, ends, columns=len(names))
    records = Records(data, begins, ends, None, None)
    times = None if time is None else _offsets_ns(_values(records, record, names, time), time)
    keys = None if key is None else tuple(str(value) for value in _values(records, record, names, key))
    if record is Record.JSONL and time is None and key is None:
        _values(records, record, names, None)  # every line must be JSON all the same
    return Records(data, begins, ends, times, keys)


def _lines(data: bytes) -> tuple[Longs, Longs]:
    breaks = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == ord("\n"))
    begins = np.concatenate([[0], breaks + 1]).astype(np.int64)
    ends = np.concatenate([breaks, [len(data)]]).astype(np.int64)
    is_rest = ends[-1] == begins[-1]  # nothing follows the last line end
    return (begins[:-1], ends[:-1]) if is_rest else (begins, ends)


def _refuse_wrong_header(names: list[str], *, fields: int) -> None:
    """A first line that names no columns would be left out as one, and a record with it."""
    hint = "header: false sends the first line too"
    for place, name in enumerate(names, start=1):
        if not name.strip():
            raise RuleError(f"the header of the file has no name for column {place}; {hint}")
        if _is_number(name):
            raise RuleError(f"the header of the file names column {place} {name!r}, which is a number; {hint}")
        if names.index(name) != place - 1:
            raise RuleError(f"the header of the file names two columns {name!r}; {hint}")
    if fields > len(names):
        raise RuleError(f"the header of the file has {len(names)} columns, and its first record {fields}; {hint}")


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _refuse_cut_off(data: bytes, begins: Longs, ends: Longs, *, columns: int) -> None:
    """A file that ends in the middle of a record: without a line end, and with fewer fields than it has columns."""
    fields = len(rfc4180.fields(data[begins[-1] : ends[-1]], f"record {begins.size}"))
    if ends[-1] == len(data) and fields < columns:
        raise RuleError(
            f"the file is cut off: record {begins.size}, its last, has {fields} of {columns} fields and no line end"
        )


def _values(records: Records, record: Record, names: list[str], wanted: str | None) -> list[Any]:
    """One field of every record, by the name of its column or key."""
    if record is Record.LINE:
        raise RuleError("lines have no columns: time and key need record csv or jsonl")
    return _json_values(records, wanted) if record is Record.JSONL else _column(records, names, str(wanted))


def _column(records: Records, names: list[str], wanted: str) -> list[str]:
    if not names:
        raise RuleError("columns have no names without a header")
    if wanted not in names:
        refuse_unknown(f"column {wanted!r} of the file", wanted, known=names)
    place, found = names.index(wanted), []
    for number, record in _numbered(records):
        fields = rfc4180.fields(record, f"record {number}")
        if place >= len(fields):
            raise RuleError(f"record {number} of the file has no {wanted}: it has {len(fields)} of {len(names)} fields")
        found.append(fields[place])
    return found


def _json_values(records: Records, wanted: str | None) -> list[Any]:
    found = []
    for number, record in _numbered(records):
        try:
            content = json.loads(record)
            found.append(None if wanted is None else content[wanted])
        except json.JSONDecodeError as problem:
            is_cut_off = number == records.count and records.ends[-1] == len(records.data)
            what = "the file is cut off: record {0}, its last, is no whole JSON and has no line end"
            raise RuleError((what if is_cut_off else "record {0} of the file is no JSON").format(number)) from problem
        except RecursionError as problem:
            raise RuleError(f"record {number} of the file is JSON in too many layers of brackets") from problem
        except (ValueError, IndexError, KeyError, TypeError) as problem:
            raise RuleError(f"record {number} of the file has no {wanted or 'JSON'}: {problem!r}") from problem
    return found


def _numbered(records: Records) -> Iterator[tuple[int, bytes]]:
    spans = zip(records.begins.tolist(), records.ends.tolist(), strict=True)
    return enumerate((records.data[begin:end] for begin, end in spans), start=1)


def _offsets_ns(values: list[Any], name: str) -> Longs:
    """Times since the earliest; numbers are seconds, texts are ISO 8601."""
    seconds = []
    for number, value in enumerate(values, start=1):
        try:
            seconds.append(_seconds(value))
        except (ValueError, TypeError, OverflowError) as problem:
            rule = f"record {number} of the file: {name} is {value!r}, neither seconds nor an ISO 8601 time"
            raise RuleError(rule) from problem
    since = np.array(seconds, dtype=np.float64)
    if (span_s := since.max() - since.min()) > _LONGEST_S:
        raise RuleError(f"the times of the file, by its {name}, are {span_s:g} s apart; the most are {_LONGEST_S:g} s")
    offsets: Longs = np.round((since - since.min()) * 1e9).astype(np.int64)
    if (np.diff(offsets) < 0).any():
        late = int(np.flatnonzero(np.diff(offsets) < 0)[0]) + 2
        raise RuleError(f"record {late} of the file is earlier than the one before it, by its {name}")
    return offsets


def _seconds(value: Any) -> float:
    if isinstance(value, bool):
        raise TypeError(value)  # Python counts true as 1
    try:
        seconds = float(value)
    except ValueError:
        at = datetime.fromisoformat(str(value).strip())
        return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
    if not math.isfinite(seconds):
        raise ValueError(value)
    return seconds


def equal_records(records: Records) -> tuple[int, int] | None:
    """The first two records of the same bytes, by their numbers from 1; None where all differ."""
    seen: dict[bytes, int] = {}
    for number, record in _numbered(records):
        if (first := seen.setdefault(record, number)) != number:
            return first, number
    return None


@lru_cache(maxsize=4)
def nearest_equals(replay: Replay, *, publishers: int) -> int | None:
    """How many messages apart the nearest two with the same bytes of one publisher are; None where all differ."""
    records = records_of(replay)
    begins, ends = records.begins.tolist(), records.ends.tolist()
    nearest: int | None = None
    for own in shares_of(records, replay.split, publishers=publishers):
        first: dict[bytes, int] = {}
        last: dict[bytes, int] = {}
        for place, number in enumerate(own.tolist()):
            record = records.data[begins[number] : ends[number]]
            if record in last:
                nearest = min(nearest or records.count, place - last[record])
            first.setdefault(record, place)
            last[record] = place
        if replay.repeat:
            again = (own.size - last[record] + place for record, place in first.items())
            nearest = min([nearest or own.size, *again])
    return nearest


def equal_of_two(records: Records, shares: Sequence[Longs]) -> tuple[int, int] | None:
    """The first two records of the same bytes that two publishers send, by their numbers from 1; None without any."""
    owners = np.empty(records.count, dtype=np.int64)
    for publisher, own in enumerate(shares):
        owners[own] = publisher
    seen: dict[bytes, tuple[int, int]] = {}
    for (number, record), owner in zip(_numbered(records), owners.tolist(), strict=True):
        first, its_owner = seen.setdefault(record, (number, owner))
        if its_owner != owner:
            return first, number
    return None


def shares_of(records: Records, split: Split, *, publishers: int) -> list[Longs]:
    """Which records each publisher sends, in the order of the file: every record once."""
    every = np.arange(records.count)
    if split is Split.BLOCKS:
        return [np.asarray(part) for part in np.array_split(every, publishers)]
    if split is Split.TURNS or records.keys is None:
        return [every[number::publishers] for number in range(publishers)]
    numbers: dict[str, int] = {}
    owner = np.array([numbers.setdefault(key, len(numbers)) for key in records.keys]) % publishers
    return [np.flatnonzero(owner == number) for number in range(publishers)]


def measure_s(workload: Workload, phases: Phases) -> float:
    """How long the measure phase lasts: with replay arrivals as long as the file needs, whatever that is."""
    replay, schedule = workload.payload.replay, workload.schedule
    if schedule.arrivals is not Arrivals.REPLAY or replay is None:
        return phases.measure_s
    records = records_of(replay)
    if records.offsets_ns is not None:
        return float(records.offsets_ns[-1]) / 1e9 / schedule.speed + _AFTER_LAST_S
    longest = max(part.size for part in shares_of(records, replay.split, publishers=workload.publishers))
    return longest / schedule.rate_per_s
