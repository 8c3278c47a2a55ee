"""The steps of a transformer: each takes a message and gives another; what it cannot take it refuses with a reason.

    select, rename, convert     fields of a JSON object, or of each object of a JSON list
    csv_to_json, json_to_csv    rows of text and JSON
    python                      a function of the user's

A field is named by its path, with dots between the keys: `position.lat`.
"""

import csv
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from brokerlab.load.properties import Properties

_TRUTHS = {"true": True, "1": True, "yes": True, "on": True, "false": False, "0": False, "no": False, "off": False}


class BadMessageError(ValueError):
    """A message that a step cannot take; the text is the reason that its dead letter tells."""


@dataclass(frozen=True, slots=True)
class Message:
    """What a transformer sees and gives."""

    topic: str
    payload: bytes
    qos: int = 0
    retain: bool = False
    properties: Properties = ()  # of MQTT 5.0


class Step(Protocol):
    def __call__(self, message: Message, /) -> Message | None:
        """The message after this step; None where it shall not go on. BadMessageError where it cannot be taken."""
        ...


@dataclass(frozen=True, slots=True)
class Select:
    fields: tuple[str, ...]

    def __call__(self, message: Message) -> Message:
        return _on_objects(message, self._selected)

    def _selected(self, record: dict[str, Any]) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for path in self.fields:
            _put(kept, path, _get(record, path))
        return kept


@dataclass(frozen=True, slots=True)
class Rename:
    names: Mapping[str, str]  # path -> path

    def __call__(self, message: Message) -> Message:
        return _on_objects(message, self._renamed)

    def _renamed(self, record: dict[str, Any]) -> dict[str, Any]:
        values = {new: _taken(record, old) for old, new in self.names.items()}
        for path, value in values.items():
            _put(record, path, value)
        return record


@dataclass(frozen=True, slots=True)
class Conversion:
    """A field's value as another kind; numbers are multiplied, then shifted, then rounded."""

    to: str  # number, whole, text, truth
    factor: float = 1.0
    offset: float = 0.0
    digits: int | None = None

    def __call__(self, value: Any, path: str) -> Any:
        try:
            return self._converted(value)
        except (ValueError, TypeError, KeyError, OverflowError):
            raise BadMessageError(f"the field {path} is no {self.to}: {_shown(value)}") from None

    def _converted(self, value: Any) -> Any:
        if self.to == "text":
            return value if isinstance(value, str) else json.dumps(value)
        if self.to == "truth":
            return value if isinstance(value, bool) else _TRUTHS[str(value).strip().lower()]
        if isinstance(value, bool):
            raise TypeError
        number = float(value) * self.factor + self.offset
        if self.to == "whole":
            return round(number)
        if not -float("inf") < number < float("inf"):
            raise ValueError
        return number if self.digits is None else round(number, self.digits)


@dataclass(frozen=True, slots=True)
class Convert:
    fields: Mapping[str, Conversion]

    def __call__(self, message: Message) -> Message:
        return _on_objects(message, self._converted)

    def _converted(self, record: dict[str, Any]) -> dict[str, Any]:
        for path, conversion in self.fields.items():
            _put(record, path, conversion(_get(record, path), path))
        return record


@dataclass(frozen=True, slots=True)
class CsvToJson:
    """Rows as objects; the names of the columns are given, or stand in the first row."""

    columns: tuple[str, ...] = ()
    separator: str = ","
    is_many: bool = False  # a list of all rows, instead of the one row as an object

    def __call__(self, message: Message) -> Message:
        rows = [row for row in csv.reader(io.StringIO(_text(message)), delimiter=self.separator) if row]
        columns = self.columns or tuple(rows.pop(0) if rows else ())
        for row in rows:
            if len(row) != len(columns):
                raise BadMessageError(f"a row has {len(row)} fields, not {len(columns)}: {_shown(row)}")
        records = [dict(zip(columns, row, strict=True)) for row in rows]
        if not self.is_many and len(records) != 1:
            raise BadMessageError(f"the payload has {len(records)} rows, not one")
        return _with_json(message, records if self.is_many else records[0])


@dataclass(frozen=True, slots=True)
class JsonToCsv:
    columns: tuple[str, ...]
    separator: str = ","
    has_header: bool = False

    def __call__(self, message: Message) -> Message:
        value = _json(message)
        out = io.StringIO()
        writer = csv.writer(out, delimiter=self.separator, lineterminator="\n")
        if self.has_header:
            writer.writerow(self.columns)
        for record in value if isinstance(value, list) else [value]:
            writer.writerow([_cell(_get(_object(record), path)) for path in self.columns])
        return replace(message, payload=out.getvalue().encode())


@dataclass(frozen=True, slots=True)
class Call:
    """A function of the user's: Message -> Message, or payload as bytes or text, or None to drop the message."""

    name: str  # dotted
    function: Callable[[Message], Any]

    def __call__(self, message: Message) -> Message | None:
        try:
            found = self.function(message)
        except Exception as problem:  # whatever it is, it is this message that has it
            raise BadMessageError(f"{self.name} raised {type(problem).__name__}: {problem}") from problem
        if found is None:
            return None
        made = found if isinstance(found, Message) else replace(message, payload=found)
        if isinstance(made.payload, str | bytes | bytearray):
            return replace(
                made, payload=made.payload.encode() if isinstance(made.payload, str) else bytes(made.payload)
            )
        raise BadMessageError(f"{self.name} returned {type(found).__name__}, not a Message, text, bytes or None")


def transformed(message: Message, steps: tuple[Step, ...]) -> Message | None:
    """The message after all steps."""
    for step in steps:
        following = step(message)
        if following is None:
            return None
        message = following
    return message


# -- JSON ---------------------------------------------------------------------------------------------------------


def _on_objects(message: Message, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Message:
    value = _json(message)
    changed = [change(_object(each)) for each in value] if isinstance(value, list) else change(_object(value))
    return _with_json(message, changed)


def _json(message: Message) -> Any:
    try:
        return json.loads(message.payload)
    except (ValueError, RecursionError) as problem:
        raise BadMessageError(f"the payload is no JSON: {problem}") from problem


def _with_json(message: Message, value: Any) -> Message:
    return replace(message, payload=json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())


def _text(message: Message) -> str:
    try:
        return message.payload.decode()
    except UnicodeDecodeError as problem:
        raise BadMessageError(f"the payload is not UTF-8: {problem.reason}") from problem


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadMessageError(f"no JSON object: {_shown(value)}")
    return value


def _get(record: dict[str, Any], path: str) -> Any:
    value: Any = record
    for key in path.split("."):
        if not isinstance(value, dict) or key not in value:
            raise BadMessageError(f"the field {path} is missing")
        value = value[key]
    return value


def _taken(record: dict[str, Any], path: str) -> Any:
    value = _get(record, path)
    *parents, last = path.split(".")
    del (_get(record, ".".join(parents)) if parents else record)[last]
    return value


def _put(record: dict[str, Any], path: str, value: Any) -> None:
    *parents, last = path.split(".")
    for key in parents:
        record = record.setdefault(key, {})
        if not isinstance(record, dict):
            raise BadMessageError(f"the field {path} has no place: {key} is no object")
    record[last] = value


def _cell(value: Any) -> Any:
    return value if isinstance(value, str | int | float) and not isinstance(value, bool) else json.dumps(value)


def _shown(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else text[:59] + "…"
