"""A study file as plain values, with the line of every key and item.

YAML 1.2 without its extras: no tags, no merge keys; a duplicate key is a problem, not a last word.
`--set key=value` is laid over the file here, so that everything after it treats both alike.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from brokerlab.study.nearest import nearest
from brokerlab.study.problems import Problem, StudyError

KeyPath = tuple[str | int, ...]

SETTING = "--set"
_NUMBER_TAGS = {f"tag:yaml.org,2002:{kind}" for kind in ("null", "bool", "int", "float")}
# Dates and the signs of YAML 1.1 ("<<", "=") are plain text in a study.
_TEXT_TAGS = {f"tag:yaml.org,2002:{kind}" for kind in ("str", "timestamp", "merge", "value")}


@dataclass(frozen=True, slots=True)
class Kind:
    """What a file is, in the words of its messages."""

    noun: str  # with its article
    first: str  # how it begins
    keys: str


STUDY = Kind("a study", "brokerlab: 1", "brokerlab, study, goals, system, …")


@dataclass(frozen=True, slots=True)
class Place:
    file: str
    line: int | None


@dataclass(slots=True)
class Document:
    """The content of a study file; grows only while it is read."""

    file: str
    content: dict[str, Any] = field(default_factory=dict)
    places: dict[KeyPath, Place] = field(default_factory=dict)
    written: dict[KeyPath, str] = field(default_factory=dict)  # scalars, as they stand in the file
    problems: list[Problem] = field(default_factory=list)

    def get(self, *path: str | int) -> Any:
        """The value at the path, or None where there is none."""
        value: Any = self.content
        for part in path:
            is_there = part in value if isinstance(value, dict) else isinstance(value, list) and isinstance(part, int)
            if not is_there:
                return None
            value = value[part]
        return value

    def mapping(self, *path: str | int) -> dict[str, Any]:
        """The mapping at the path; empty where there is something else, which the model refuses."""
        value = self.get(*path)
        return value if isinstance(value, dict) else {}

    def is_set_by_option(self, *path: str | int) -> bool:
        return path in self.places and self.places[path].file == SETTING

    def problem(self, path: KeyPath, rule: str, *, nearest_valid: str | None = None, of_key: bool = False) -> Problem:
        """The problem at the path, with the line of its nearest existing parent if it does not exist."""
        place = next(self.places[near] for near in _with_parents(path) if near in self.places)
        value = None if of_key or path[-1:] == ("password",) else self.written.get(path)
        return Problem(place.file, place.line, key_text(path), value, rule, nearest_valid)

    def add(self, path: KeyPath, rule: str, *, nearest_valid: str | None = None, of_key: bool = False) -> None:
        self.problems.append(self.problem(path, rule, nearest_valid=nearest_valid, of_key=of_key))


def read_document(path: Path, *, settings: Sequence[str] = (), kind: Kind = STUDY) -> Document:
    """The file with the settings laid over it; a file that is no mapping is refused at once."""
    file = str(path)
    root = _composed(_text(path), file=file)
    if root is None:
        raise _whole_file(file, None, f"the file is empty; {kind.noun} begins with `{kind.first}`")
    line = root.start_mark.line + 1
    if not isinstance(root, MappingNode):
        raise _whole_file(file, line, f"{kind.noun} is a mapping with the keys {kind.keys}")
    document = Document(file, places={(): Place(file, line)})
    document.content = _Walk(document, source=file).value(root, path=())
    for setting in settings:
        _lay_over(document, setting)
    return document


def key_text(path: KeyPath) -> str:
    """The path as a dotted key: "scenario.variables.qos[2]"."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


class _Walk:
    """Turns YAML nodes into plain values and notes where they stand."""

    def __init__(self, document: Document, *, source: str) -> None:
        self._document = document
        self._source = source
        self._open: list[int] = []  # nodes that are being walked, to find one that holds itself
        self._constructor = YAML(typ="safe", pure=True).constructor

    def value(self, node: Node, *, path: KeyPath) -> Any:
        if id(node) in self._open:
            self._document.add(path, "an alias must not hold itself")
            return None
        self._open.append(id(node))
        try:
            if isinstance(node, MappingNode):
                return self._mapping(node, path=path)
            if isinstance(node, SequenceNode):
                return self._sequence(node, path=path)
            return self._scalar(node, path=path)
        finally:
            self._open.pop()

    def _mapping(self, node: MappingNode, *, path: KeyPath) -> dict[str, Any]:
        content: dict[str, Any] = {}
        for key_node, value_node in node.value:
            if not isinstance(key_node, ScalarNode):
                self._note((*path, "?"), key_node)
                self._document.add((*path, "?"), "a key must be plain text", of_key=True)
                continue
            key = str(key_node.value)
            here = (*path, key)
            if key in content:
                self._add_duplicate(here, key_node)
                continue
            self._note(here, key_node)
            content[key] = self.value(value_node, path=here)
        return content

    def _sequence(self, node: SequenceNode, *, path: KeyPath) -> list[Any]:
        for number, item in enumerate(node.value):
            self._note((*path, number), item)
        return [self.value(item, path=(*path, number)) for number, item in enumerate(node.value)]

    def _scalar(self, node: Node, *, path: KeyPath) -> Any:
        text = str(node.value)
        self._document.written[path] = text
        if any("\ud800" <= character <= "\udfff" for character in text):
            self._document.add(path, "half a surrogate pair is not a character")
            return ""
        if node.tag in _NUMBER_TAGS:
            return self._number(node)
        if node.tag not in _TEXT_TAGS:
            self._document.add(path, f"YAML tags such as {node.tag} are not used in a study")
        return text

    def _number(self, node: Node) -> Any:
        """Null, a truth value or a finite number; whatever else looks like one stays text."""
        try:
            value = self._constructor.construct_object(node)
        except (ValueError, YAMLError):  # more digits than Python converts
            return str(node.value)
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else str(node.value)
        return value

    def _note(self, path: KeyPath, node: Node) -> None:
        line = None if self._source == SETTING else node.start_mark.line + 1
        self._document.places[path] = Place(self._source, line)

    def _add_duplicate(self, path: KeyPath, node: Node) -> None:
        line = None if self._source == SETTING else node.start_mark.line + 1
        first = self._document.places[path].line
        rule = "the key is already there" if first is None else f"the key is already in line {first}"
        self._document.problems.append(Problem(self._source, line, key_text(path), None, rule))


def _lay_over(document: Document, setting: str) -> None:
    """Puts the value of `key=value` in its place; the mappings on the way are made where missing."""
    key, equals, text = setting.partition("=")
    path: KeyPath = tuple(part.strip() for part in key.split("."))
    if not equals or not all(path):
        _add_to_option(document, "", setting, "must be key=value, such as deploy.repetitions=5")
        return
    try:
        node = _composed(text, file=SETTING)
    except StudyError as problem:
        _add_to_option(document, key_text(path), text, problem.problems[0].rule)
        return
    parent = _parent(document, path)
    if parent is None:
        return
    _forget(document, path)
    document.places[path] = Place(SETTING, None)
    document.written[path] = text.strip()
    parent[str(path[-1])] = None if node is None else _Walk(document, source=SETTING).value(node, path=path)


def _parent(document: Document, path: KeyPath) -> dict[str, Any] | None:
    """The mapping that holds the last part of the path."""
    content = document.content
    for length in range(1, len(path)):
        here = path[:length]
        inner = content.get(str(here[-1]))
        if inner is None:
            inner = content[str(here[-1])] = {}
            document.places[here] = Place(SETTING, None)
        if not isinstance(inner, dict):
            rule = f"{key_text(here)} is not a mapping in {document.file}; set it whole"
            _add_to_option(document, key_text(path), None, rule)
            return None
        content = inner
    return content


def _forget(document: Document, path: KeyPath) -> None:
    """Drops the places of what a setting replaces."""
    for known in [known for known in document.places if known[: len(path)] == path]:
        del document.places[known]
        document.written.pop(known, None)


def _add_to_option(document: Document, key: str, value: str | None, rule: str) -> None:
    document.problems.append(Problem(SETTING, None, key, value, rule))


def _with_parents(path: KeyPath) -> Iterator[KeyPath]:
    return (path[:length] for length in range(len(path), -1, -1))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as problem:
        close = nearest(path.name, _neighbours(path))
        meant = None if close is None else str(path.with_name(close))
        raise StudyError([Problem(str(path), None, "", None, "no such file", meant)]) from problem
    except UnicodeDecodeError as problem:
        raise _whole_file(str(path), None, f"the file is not UTF-8 text: {problem.reason}") from problem
    except OSError as problem:
        raise _whole_file(str(path), None, f"the file cannot be read: {problem.strerror}") from problem


def _neighbours(path: Path) -> list[str]:
    return [other.name for suffix in ("yaml", "yml") for other in sorted(path.parent.glob(f"*.{suffix}"))]


def _composed(text: str, *, file: str) -> Node | None:
    """The root node of the text; None where it holds nothing."""
    try:
        root: Node | None = YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as problem:
        raise _syntax_error(file, problem) from problem
    except YAMLError as problem:
        raise _whole_file(file, None, f"not valid YAML: {str(problem).splitlines()[0]}") from problem
    except RecursionError as problem:
        raise _whole_file(file, None, "not a study: it is nested too deeply") from problem
    return root


def _syntax_error(file: str, problem: MarkedYAMLError) -> StudyError:
    mark, begun = problem.problem_mark or problem.context_mark, problem.context_mark
    rule = f"not valid YAML: {problem.problem or problem.context}"
    if begun is not None and mark is not None and begun.line != mark.line:
        rule += f" ({problem.context}, begun in line {begun.line + 1})"
    return _whole_file(file, None if mark is None or file == SETTING else mark.line + 1, rule)


def _whole_file(file: str, line: int | None, rule: str) -> StudyError:
    return StudyError([Problem(file, line, "", None, rule)])
