"""The key `payload` of a workload: one size, or a mapping of sizes and contents.

payload: 64 B
payload: {size: 64 B, content: zeros}
payload: {mix: {64 B: 90 %, 1 KiB: 10 %}}            drawn for each message
payload: {each: [125528 B, 35703 B]}                 publisher p has the p-th, from the start again after the last
payload: {content: json, template: '{"seq": {seq}}'} or the name of a file that ends in .json
"""

from pathlib import Path
from typing import Annotated, ClassVar, Self

from pydantic import Field, PlainValidator, ValidationInfo, model_validator

from brokerlab.study import quantity
from brokerlab.study.factors import read_content, read_payload_bytes
from brokerlab.study.part import Part
from brokerlab.study.problems import RuleError
from brokerlab.study.template import read_template
from brokerlab.study.values import Content, Payload, Workload

Size = Annotated[int, PlainValidator(read_payload_bytes)]
_DEFAULT_BYTES = Workload().payload_bytes


def read_share_percent(written: object) -> float:
    share_percent = quantity.read_percent(written)
    if not 0 < share_percent <= 100:
        raise RuleError("must be above 0 % and at most 100 %")
    return share_percent


def read_template_text(written: object, info: ValidationInfo) -> str:
    """The text of a template, which may stand in a file beside the study."""
    if not isinstance(written, str) or not written.strip():
        raise RuleError("must be a JSON text with {seq} in it, or the name of a file that ends in .json")
    if written.endswith(".json"):
        written = _text_of(_beside(written, info))
    read_template(written)
    return written


def _beside(name: str, info: ValidationInfo) -> Path:
    """A file that a study names: where it is not absolute, from the folder of the study on."""
    folder: Path = (info.context or {}).get("folder", Path())
    return (folder / name).absolute()


def _text_of(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except FileNotFoundError as problem:
        raise RuleError(f"no such file: {path}") from problem
    except (OSError, UnicodeDecodeError) as problem:
        raise RuleError(f"{path} cannot be read: {problem}") from problem


def as_mapping(written: object) -> object:
    """A size may stand alone."""
    return written if isinstance(written, dict | None) else {"size": written}


class PayloadPart(Part):
    later: ClassVar[tuple[str, ...]] = ("file", "record")

    size: Size | None = None
    content: Annotated[Content, PlainValidator(read_content)] = Content.RANDOM
    template: Annotated[str | None, PlainValidator(read_template_text)] = None
    mix: dict[Size, Annotated[float, PlainValidator(read_share_percent)]] = Field(default={}, min_length=1)
    each: list[Size] = Field(default=[], min_length=1)

    @model_validator(mode="after")
    def _agree(self) -> Self:
        given = [key for key in ("size", "mix", "each") if key in self.model_fields_set]
        if len(given) > 1:
            raise RuleError(f"has {' and '.join(given)}; one of them says how long messages are")
        if self.mix and abs(sum(self.mix.values()) - 100) > 1e-6:
            raise RuleError(f"the shares of mix sum to {quantity.percent_text(sum(self.mix.values()))}, not to 100 %")
        if self.content is Content.JSON and self.template is None:
            raise RuleError('content json needs a template, such as \'{"seq": {seq}, "at": {intended_ns}}\'')
        return self

    @property
    def size_bytes(self) -> int:
        """Of every message, or of the longest; a template alone is as long as it is."""
        if self.mix or self.each:
            return max([*self.mix, *self.each])
        if self.size is None and self.template is not None:
            return len(read_template(self.template).text)
        return _DEFAULT_BYTES if self.size is None else self.size

    def value(self) -> Payload:
        return Payload(self.content, self.template, tuple(self.mix.items()), tuple(self.each))
