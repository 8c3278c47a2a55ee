"""Any CSV of deliveries, by a mapping file that says which column is what.

separator: ","
columns:
subscriber: receiver          # a name of the header, or a number from 1 where there is none
publisher: {value: sensor-1}  # the same in every row
message: id                   # without it every row is a message of its own
received: {column: t_in, unit: ms}
sent: {column: t_out, unit: ms}      # or latency: {column: delay, unit: us}, or neither
payload_bytes: size
dup: retransmitted
qos: 1
"""

import csv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from brokerlab.errors import UserError
from brokerlab.imports.base import Options, Reading, Source
from brokerlab.imports.messages import About, Arrivals, parts_of, reading_of
from brokerlab.imports.times import is_unit, iso_ns, number_ns, unit_ns
from brokerlab.study.nearest import listed, nearest

_KEYS = ("separator", "columns", "qos")
_COLUMNS = ("subscriber", "publisher", "message", "received", "sent", "latency", "payload_bytes", "dup")
_TIMES = ("received", "sent", "latency")
_UNITS = ("s", "ms", "us", "ns", "iso")
_TRUE, _FALSE = ("1", "true", "yes"), ("0", "false", "no", "")


@dataclass(frozen=True, slots=True)
class Column:
    """Where a value stands: in a named or numbered column, or the same everywhere."""

    column: str | int | None = None
    value: str | None = None
    unit: str = "ms"


@dataclass(frozen=True, slots=True)
class Mapped:
    separator: str
    columns: Mapping[str, Column]
    qos: int | None

    @property
    def has_header(self) -> bool:
        return any(isinstance(each.column, str) for each in self.columns.values())


class Csv:
    name = "csv"
    about = "any CSV of deliveries, by a mapping file (--map)"
    is_folder_a_run = False

    def read(self, sources: Sequence[Source], options: Options) -> list[Reading]:
        if options.mapping is None:
            raise UserError("csv needs a mapping file", hint="give it with --map; docs/imports.md shows one")
        mapping = read_mapping(options.mapping)
        arrivals = Arrivals()
        digits = max((_add_rows(arrivals, source, mapping) for source in sources), default=0)
        about = About(
            qos=mapping.qos if options.qos is None else options.qos,
            resolution_ns=_resolution_ns(mapping.columns["received"].unit, digits),
        )
        return [reading_of(part, about, options) for part in parts_of(arrivals, options.split_s) if len(part)]


def _resolution_ns(unit: str, digits: int) -> int | None:
    """Of times with so many digits behind the point; not known of a clock's text, which may be padded."""
    return None if unit == "iso" else max(1, unit_ns(unit) // 10**digits)


def read_mapping(path: Path) -> Mapped:
    """The mapping; every key that is wrong is refused with the nearest one that is not."""
    try:
        content = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    except (OSError, YAMLError) as problem:
        raise UserError(f"{path}: the mapping cannot be read: {problem}") from problem
    if not isinstance(content, dict) or not isinstance(content.get("columns"), dict):
        raise UserError(f"{path}: a mapping has the key columns", hint="docs/imports.md shows one")
    _refuse_unknown(path, content, _KEYS)
    _refuse_unknown(path, content["columns"], _COLUMNS)
    columns = {name: _column(path, name, written) for name, written in content["columns"].items()}
    if missing := [name for name in ("subscriber", "publisher", "received") if name not in columns]:
        raise UserError(f"{path}: columns lacks {listed(missing)}")
    qos = content.get("qos")
    if qos not in (None, 0, 1, 2):
        raise UserError(f"{path}: qos {qos!r} is not 0, 1 or 2")
    return Mapped(str(content.get("separator", ",")), columns, qos)


def _refuse_unknown(path: Path, written: Mapping[str, Any], names: Sequence[str]) -> None:
    for key in written:
        if key not in names:
            close = nearest(str(key), names)
            meant = f"did you mean {close}?" if close else f"there are {listed(names)}"
            raise UserError(f"{path}: there is no key {key!r}", hint=meant)


def _column(path: Path, name: str, written: Any) -> Column:
    if isinstance(written, (str, int)) and not isinstance(written, bool):
        written = {"column": written}
    if not isinstance(written, dict) or ("column" in written) == ("value" in written):
        raise UserError(f"{path}: columns.{name} is neither a column nor {{value: …}}")
    _refuse_unknown(path, written, ("column", "value", "unit"))
    unit = str(written.get("unit", "ms"))
    if name in _TIMES and not (is_unit(unit) or (unit == "iso" and name != "latency")):
        raise UserError(f"{path}: columns.{name}.unit {unit!r} is none of {listed(_UNITS)}")
    value = written.get("value")
    return Column(written.get("column"), None if value is None else str(value), unit)


def _add_rows(arrivals: Arrivals, source: Source, mapping: Mapped) -> int:
    """Adds the rows of a file; with how many digits behind the point its most exact arrival is written."""
    places: dict[str, int] = {}
    digits = 0
    for number, line in source:
        fields = [field.strip() for field in next(csv.reader([line], delimiter=mapping.separator))]
        if not places:
            places = _places(source, mapping, fields)
            if mapping.has_header:
                continue
        why = _add_row(arrivals, mapping, places, fields)
        if why:
            source.refuse(number, line, why)
        elif "received" in places:
            digits = max(digits, len(fields[places["received"]].partition(".")[2]))
    return digits


def _places(source: Source, mapping: Mapped, header: Sequence[str]) -> dict[str, int]:
    places = {}
    for name, each in mapping.columns.items():
        if isinstance(each.column, int):
            places[name] = each.column - 1
        elif each.column is not None:
            if each.column not in header:
                close = nearest(each.column, header)
                meant = f"did you mean {close}?" if close else f"its columns are {listed(header)}"
                raise UserError(f"{source.path}: there is no column {each.column!r}", hint=meant)
            places[name] = header.index(each.column)
    return places or {"": 0}


def _add_row(arrivals: Arrivals, mapping: Mapped, places: Mapping[str, int], fields: Sequence[str]) -> str | None:
    """Adds one row; why it cannot be read, if so."""
    if any(place >= len(fields) for place in places.values()):
        return f"it has {len(fields)} columns"
    text = {name: each.value or "" for name, each in mapping.columns.items()}
    text |= {name: fields[place] for name, place in places.items()}
    times = {name: _time_ns(text[name], mapping.columns[name].unit) for name in _TIMES if name in text}
    if wrong := [name for name, at_ns in times.items() if at_ns is None]:
        return f"{wrong[0]} {text[wrong[0]]!r} is no time"
    received_ns = times["received"]
    assert received_ns is not None
    latency_ns = times.get("latency")
    sent_ns = received_ns - latency_ns if latency_ns is not None else times.get("sent")
    size, dup = text.get("payload_bytes"), text.get("dup")
    if size and not size.isdecimal():
        return f"payload_bytes {size!r} is no number"
    if dup is not None and dup.lower() not in (*_TRUE, *_FALSE):
        return f"dup {dup!r} is neither yes nor no"
    arrivals.add(
        text["subscriber"],
        text["publisher"],
        text.get("message", str(len(arrivals))),
        received_ns,
        intended_ns=sent_ns,
        payload_bytes=int(size) if size else None,
        dup=None if dup is None else dup.lower() in _TRUE,
    )
    return None


def _time_ns(text: str, unit: str) -> int | None:
    return iso_ns(text) if unit == "iso" else number_ns(text, unit)
