"""The rules of payloads that concern more than one place of a study file."""

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from brokerlab.study.document import Document, KeyPath
from brokerlab.study.factors import read_content, read_payload_bytes
from brokerlab.study.identity import FULL_BYTES, publisher_bytes
from brokerlab.study.payload import PayloadPart, template_text
from brokerlab.study.problems import RuleError
from brokerlab.study.replay import records_of
from brokerlab.study.template import read_template
from brokerlab.study.values import Arrivals, Content, Replay, Topics, Workload

_WORKLOAD: KeyPath = ("scenario", "workload")
_PAYLOAD: KeyPath = (*_WORKLOAD, "payload")
_SCHEDULE: KeyPath = (*_WORKLOAD, "schedule")
_VARIABLES: KeyPath = ("scenario", "variables")


def check_payload(document: Document) -> None:
    """Adds the problems that it finds to the document's."""
    payload = document.mapping(*_PAYLOAD)
    _check_levels(document, payload)
    _check_template(document, payload)
    _check_identity(document, payload)
    _check_replay(document, payload)
    _check_repeat(document)
    _check_search(document, payload)


def replay_of(document: Document) -> Replay | None:
    """The file that is replayed; None where there is none, or where the model has something to say of it first."""
    payload = document.mapping(*_PAYLOAD)
    if "file" not in payload:
        return None
    try:
        part = PayloadPart.model_validate(payload, context={"folder": Path(document.file).parent})
    except ValidationError:
        return None
    return part.value().replay


def told_otherwise(document: Document) -> str:
    """Messages of the study that do not begin with their whole identity, in words; empty where all do."""
    payload = document.mapping(*_PAYLOAD)
    if "file" in payload:
        return "records of a file"
    written = document.get(*_VARIABLES, "content")
    contents = written if isinstance(written, list) else [payload.get("content", Content.RANDOM.value)]
    if Content.JSON in map(_content, contents):
        return "messages in JSON"
    short = [size for _, size in sizes_of(document, payload) if size is not None and size < FULL_BYTES]
    return f"messages of {min(short)} B" if short else ""


def _check_levels(document: Document, payload: dict[str, Any]) -> None:
    """Levels of the size beside sizes that differ within a run would leave one of them without effect."""
    for key in ("mix", "each", "file"):
        if key in payload and (*_VARIABLES, "payload") in document.places:
            document.add((*_VARIABLES, "payload"), f"has no effect beside payload.{key}; leave one out", of_key=True)


def _check_replay(document: Document, payload: dict[str, Any]) -> None:
    """Replay arrivals send a file once, at its own times or at a rate, for as long as that takes."""
    if "file" in payload and (*_VARIABLES, "content") in document.places:
        document.add((*_VARIABLES, "content"), "has no effect beside payload.file; leave one out", of_key=True)
    if document.get(*_SCHEDULE, "arrivals") != Arrivals.REPLAY:
        return
    if "file" not in payload:
        document.add((*_SCHEDULE, "arrivals"), "needs a file, such as payload: {file: buses.csv, record: csv}")
    if payload.get("repeat") is True:
        document.add((*_PAYLOAD, "repeat"), "replay sends the file once; constant arrivals repeat it")
    if ("deploy", "phases", "measure") in document.places:
        rule = "replay measures for as long as the file needs; leave the key out, or take arrivals that the phases cut"
        document.add(("deploy", "phases", "measure"), rule, of_key=True)
    has_times = "time" in payload
    key, why = ("rate", "the file has its own times (payload.time)") if has_times else ("speed", "needs payload.time")
    for path in ((*_SCHEDULE, key), (*_VARIABLES, key)):
        if path in document.places:
            document.add(path, f"{why}; leave it out" if has_times else why, of_key=True)


def _check_repeat(document: Document) -> None:
    """Who begins again after its last record must have one."""
    replay = replay_of(document)
    if replay is None or not replay.repeat:
        return
    records, most = records_of(replay), _most_publishers(document)
    parts, what = records.count, "records"
    if records.keys is not None:
        parts, what = len(set(records.keys)), f"values of {replay.key}"
    if parts < most:
        rule = f"the file has {parts} {what} for {most} publishers: {most - parts} would have no record to repeat"
        document.add((*_PAYLOAD, "repeat"), rule)


def _check_template(document: Document, payload: dict[str, Any]) -> None:
    written = document.get(*_VARIABLES, "content")
    levels = {_content(level) for level in written} if isinstance(written, list) else set()
    contents = levels or {_content(payload.get("content", Content.RANDOM.value))}
    has_template = "template" in payload
    if Content.JSON in levels and not has_template:
        document.add((*_VARIABLES, "content"), "json needs scenario.workload.payload.template", of_key=True)
    if has_template and Content.JSON not in contents and None not in contents:
        document.add((*_PAYLOAD, "template"), "belongs to content json", of_key=True)
    if has_template:
        _check_room(document, payload)


def _check_identity(document: Document, payload: dict[str, Any]) -> None:
    """On a topic of several publishers a message must say whose it is."""
    publish = document.get(*_WORKLOAD, "topics", "publish")
    most = _most_publishers(document)
    if most < 2 or not isinstance(publish, str) or "{publisher}" in publish:
        return
    advice = "give each a topic of its own, with {publisher} in topics.publish"
    template = _template(document, payload)
    if template is not None and "{publisher}" not in template:
        rule = f"without {{publisher}} the {most} publishers of one topic cannot be told apart: add it, or {advice}"
        document.add((*_PAYLOAD, "template"), rule)
    needed = publisher_bytes(Workload(publishers=most, topics=Topics(publish="one"))) + 1
    for path, size in sizes_of(document, payload):
        if size is not None and size < needed:
            document.add(path, f"takes {needed} B to tell the {most} publishers of one topic apart: {advice}")


def _check_search(document: Document, payload: dict[str, Any]) -> None:
    """A search decides by latencies while it goes on, so messages must carry their intended time."""
    if document.get(*_WORKLOAD, "schedule", "arrivals") != Arrivals.SEARCH:
        return
    needs = f"a search needs messages that begin with their intended time, which takes {FULL_BYTES} B"
    if "file" in payload:
        document.add((*_PAYLOAD, "file"), f"{needs}, and records of a file are sent as they are: give a size instead")
    levels = document.get(*_VARIABLES, "content")
    for number, level in enumerate(levels if isinstance(levels, list) else ()):
        if _content(level) is Content.JSON:
            document.add((*_VARIABLES, "content", number), f"{needs}, and JSON does not: leave this level out")
    if not levels and _content(payload.get("content", Content.RANDOM.value)) is Content.JSON:
        where = "template" if "template" in payload else "content"
        document.add((*_PAYLOAD, where), f"{needs}, and JSON does not: take another content", of_key=True)
    for path, size in sizes_of(document, payload):
        if size is not None and size < FULL_BYTES:
            document.add(path, f"a search takes {FULL_BYTES} B, which hold the intended time of the message")


def _most_publishers(document: Document) -> int:
    written = document.get(*_VARIABLES, "publishers") or [document.get(*_WORKLOAD, "publishers")]
    return max((each for each in written if isinstance(each, int)), default=1) if isinstance(written, list) else 1


def _check_room(document: Document, payload: dict[str, Any]) -> None:
    """Every size must hold the text."""
    try:
        needed = len(read_template(_template(document, payload) or "").text)
    except RuleError:
        return
    for path, size in sizes_of(document, payload):
        if size is not None and size < needed:
            document.add(path, f"is less than the {needed} B of the template")


def _template(document: Document, payload: dict[str, Any]) -> str | None:
    """Its text, also of one in a file; None where there is none, or it cannot be read, which the model says."""
    try:
        return template_text(payload["template"], Path(document.file).parent) if "template" in payload else None
    except RuleError:
        return None


def sizes_of(document: Document, payload: dict[str, Any]) -> list[tuple[KeyPath, int | None]]:
    levels, each, mix = document.get(*_VARIABLES, "payload"), payload.get("each"), payload.get("mix")
    found: list[tuple[KeyPath, Any]] = []
    for path, values in (((*_VARIABLES, "payload"), levels), ((*_PAYLOAD, "each"), each)):
        if isinstance(values, list):
            found += [((*path, number), value) for number, value in enumerate(values)]
    if isinstance(mix, dict):
        found += [((*_PAYLOAD, "mix", key), key) for key in mix]
    if "size" in payload and not levels:
        found.append(((*_PAYLOAD, "size"), payload["size"]))
    if isinstance(alone := document.get(*_PAYLOAD), str) and not levels:
        found.append((_PAYLOAD, alone))
    return [(path, _size(value)) for path, value in found]


def _size(written: object) -> int | None:
    try:
        return read_payload_bytes(written)
    except RuleError:
        return None


def _content(written: object) -> Content | None:
    try:
        return read_content(written)
    except RuleError:
        return None
