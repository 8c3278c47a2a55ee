"""The key `payload` of a workload: one size, or a mapping of sizes and contents.

payload: 64 B
payload: {size: 64 B, content: zeros}
payload: {mix: {64 B: 90 %, 1 KiB: 10 %}}            drawn for each message
payload: {each: [125528 B, 35703 B]}                 publisher p has the p-th, from the start again after the last
payload: {content: json, template: '{"seq": {seq}}'} or the name of a file that ends in .json
payload: {file: buses.csv, record: csv}              one record a message, byte for byte: study/replay.py
payload: {file: {made: bus-gps, records: 1000}, …}   the same with a file that is made: study/made.py
"""

import re
from pathlib import Path
from typing import Annotated, Self

from pydantic import Field, PlainValidator, ValidationInfo, model_validator

from brokerlab.study import quantity
from brokerlab.study.factors import read_content, read_payload_bytes
from brokerlab.study.made import made_file
from brokerlab.study.nearest import nearest
from brokerlab.study.part import Part
from brokerlab.study.problems import RuleError, check_name
from brokerlab.study.replay import digest, read_bytes, records_of
from brokerlab.study.template import read_template
from brokerlab.study.values import Content, Payload, Record, Replay, Split, Workload

Size = Annotated[int, PlainValidator(read_payload_bytes)]
_DEFAULT_BYTES = Workload().payload_bytes
_REPLAY = Replay(file="", sha256="")
_OF_FILES = ("record", "header", "time", "split", "key", "repeat", "sha256")


def read_share_percent(written: object) -> float:
    share_percent = quantity.read_percent(written)
    if not 0 < share_percent <= 100:
        raise RuleError("must be above 0 % and at most 100 %")
    return share_percent


def read_template_text(written: object, info: ValidationInfo) -> str:
    """A template whose messages can be told apart."""
    text = template_text(written, _folder(info))
    read_template(text)
    return text


def template_text(written: object, folder: Path) -> str:
    """The text of a template, which may stand in a file beside the study, in this folder."""
    if not isinstance(written, str) or not written.strip():
        raise RuleError("must be a JSON text with {seq} in it, or the name of a file that ends in .json")
    return _text_of((folder / written).absolute()) if written.endswith(".json") else written


def _beside(name: str, info: ValidationInfo) -> Path:
    """A file that a study names: where it is not absolute, from the folder of the study on."""
    return (_folder(info) / name).absolute()


def _folder(info: ValidationInfo) -> Path:
    """Of the study."""
    folder: Path = (info.context or {}).get("folder", Path())
    return folder


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except FileNotFoundError as problem:
        raise RuleError(f"no such file: {path}") from problem
    except (OSError, UnicodeDecodeError) as problem:
        raise RuleError(f"{path} cannot be read: {problem}") from problem


def read_file_name(written: object, info: ValidationInfo) -> str:
    """The whole path of a file that is there, or of one that is made."""
    if isinstance(written, dict):
        return str(made_file(written))
    if not isinstance(written, str) or not written.strip():
        raise RuleError("must be the name of a file")
    path = _beside(written, info)
    if path.is_dir():
        raise RuleError(f"{path} is a folder, not a file")
    if not path.is_file():
        beside = (
            sorted(other.name for other in path.parent.glob("*") if other.is_file()) if path.parent.is_dir() else []
        )
        raise RuleError(f"no such file: {path}", nearest_valid=nearest(path.name, beside))
    return str(path)


def read_record(written: object) -> Record:
    return Record(check_name("kind of record", written, known=[record.value for record in Record]))


def read_split(written: object) -> Split:
    return Split(check_name("way to split a file", written, known=[split.value for split in Split]))


def read_digest(written: object) -> str:
    if not isinstance(written, str) or not re.fullmatch(r"[0-9a-f]{64}", written):
        raise RuleError("must be a SHA-256: 64 digits 0 to 9 and a to f")
    return written


def as_mapping(written: object) -> object:
    """A size may stand alone."""
    return written if isinstance(written, dict | None) else {"size": written}


class PayloadPart(Part):
    size: Size | None = None
    content: Annotated[Content, PlainValidator(read_content)] = Content.RANDOM
    template: Annotated[str | None, PlainValidator(read_template_text)] = None
    mix: dict[Size, Annotated[float, PlainValidator(read_share_percent)]] = Field(default={}, min_length=1)
    each: list[Size] = Field(default=[], min_length=1)
    file: Annotated[str | None, PlainValidator(read_file_name)] = None
    record: Annotated[Record, PlainValidator(read_record)] = _REPLAY.record
    header: bool = _REPLAY.header
    time: str | None = _REPLAY.time
    split: Annotated[Split, PlainValidator(read_split)] = _REPLAY.split
    key: str | None = _REPLAY.key
    repeat: bool = _REPLAY.repeat
    sha256: Annotated[str | None, PlainValidator(read_digest)] = None

    @model_validator(mode="after")
    def _agree(self) -> Self:
        given = [key for key in ("size", "mix", "each", "file") if key in self.model_fields_set]
        if len(given) > 1:
            raise RuleError(f"has {' and '.join(given)}; one of them says how long messages are")
        if self.file is not None:
            self._check_file()
        elif others := [key for key in _OF_FILES if key in self.model_fields_set]:
            raise RuleError(f"{' and '.join(others)} need a file beside them")
        if self.mix and abs(sum(self.mix.values()) - 100) > 1e-6:
            raise RuleError(f"the shares of mix sum to {quantity.percent_text(sum(self.mix.values()))}, not to 100 %")
        if self.content is Content.JSON and self.template is None:
            raise RuleError('content json needs a template, such as \'{"seq": {seq}, "at": {intended_ns}}\'')
        return self

    def _check_file(self) -> None:
        given = self.model_fields_set
        if others := [key for key in ("content", "template") if key in given]:
            raise RuleError(f"{' and '.join(others)} have no effect beside file, which is sent as it is")
        if "header" in given and self.record is not Record.CSV:
            raise RuleError("header belongs to record csv")
        if (self.split is Split.KEY) != (self.key is not None):
            raise RuleError("split: key and key: COLUMN belong together")
        records_of(self._replay())  # whatever is wrong with the file is said here

    def _replay(self) -> Replay:
        file = str(self.file)
        sha256 = self.sha256 or digest(read_bytes(file))
        return Replay(file, sha256, self.record, self.header, self.time, self.split, self.key, self.repeat)

    @property
    def size_bytes(self) -> int:
        """Of every message, or of the longest; a template alone is as long as it is."""
        if self.file is not None:
            return records_of(self._replay()).longest_bytes
        if self.mix or self.each:
            return max([*self.mix, *self.each])
        if self.size is None and self.template is not None:
            return len(read_template(self.template).text)
        return _DEFAULT_BYTES if self.size is None else self.size

    def value(self) -> Payload:
        replay = None if self.file is None else self._replay()
        return Payload(self.content, self.template, tuple(self.mix.items()), tuple(self.each), replay)
