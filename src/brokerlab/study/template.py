"""JSON templates: where the identity of a message stands in its text.

    {"seq": {seq}, "at": {intended_ns}, "publisher": {publisher}, "value": {random}}

A placeholder becomes a number of fixed width, with spaces before it, so that the text stays JSON and all messages
of a template are of one length. What stands in no placeholder is sent as it is.
"""

import json
import re
from dataclasses import dataclass

from brokerlab.study.problems import RuleError, refuse_unknown

# Digits of each: seq is 32 bits, times are 63 bits, publishers are at most 100,000, random numbers are 32 bits.
WIDTHS = {"seq": 10, "intended_ns": 19, "publisher": 6, "random": 10}
LONGEST_BYTES = 32 * 1024
_PLACEHOLDER = re.compile(r"\{([A-Za-z_]+)\}")
_EXAMPLE = '{"seq": {seq}, "at": {intended_ns}}'


@dataclass(frozen=True, slots=True)
class Template:
    """The text with spaces in its placeholders, and where these begin; -1 where there is none."""

    text: bytes
    seq_at: int
    publisher_at: int
    intended_at: int
    random_at: tuple[int, ...]


def read_template(written: str) -> Template:
    """The template, if its messages can be told apart and are JSON."""
    places: dict[str, list[int]] = {name: [] for name in WIDTHS}
    text, last = b"", 0
    for found in _PLACEHOLDER.finditer(written):
        if (name := found.group(1)) not in WIDTHS:
            refuse_unknown(f"placeholder {{{name}}}", name, known=WIDTHS)
        text += written[last : found.start()].encode()
        places[name].append(len(text))
        text += b" " * WIDTHS[name]
        last = found.end()
    text += written[last:].encode()
    _check(written, text, places)
    only = {name: at[0] if at else -1 for name, at in places.items()}
    return Template(text, only["seq"], only["publisher"], only["intended_ns"], tuple(places["random"]))


def _check(written: str, text: bytes, places: dict[str, list[int]]) -> None:
    if not places["seq"]:
        raise RuleError(f"a template needs {{seq}}, or its messages cannot be told apart; such as {_EXAMPLE}")
    for name in ("seq", "publisher", "intended_ns"):
        if len(places[name]) > 1:
            raise RuleError(f"{{{name}}} is there {len(places[name])} times; once is what is read back")
    if len(text) > LONGEST_BYTES:
        raise RuleError(f"must be at most {LONGEST_BYTES} bytes long; `size` fills longer messages with spaces")
    try:
        json.loads(_PLACEHOLDER.sub("1", written))
    except ValueError as problem:
        raise RuleError(f"is not JSON: {problem}") from problem
