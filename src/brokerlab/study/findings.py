"""What a model finds wrong with a document, as problems of ours: place, rule, nearest valid name.

For study files and for every other file that is read in their manner.
"""

from pathlib import Path
from types import UnionType
from typing import Any, TypeVar, get_args

from pydantic import ValidationError

from brokerlab.study.document import Document, KeyPath
from brokerlab.study.nearest import listed, nearest
from brokerlab.study.part import Part
from brokerlab.study.problems import Problem, RuleError

_Model = TypeVar("_Model", bound=Part)

# What pydantic calls a value of the wrong kind, and what we call it.
_WRONG_KIND = {
    "model_type": "must be a mapping of keys",
    "dict_type": "must be a mapping of keys",
    "list_type": "must be a list, such as [a, b]",
    "bool_type": "must be true or false",
    "too_short": "must not be empty",
}


def validated(document: Document, model: type[_Model]) -> _Model | None:
    """The document as the model has it; None where it refuses, with its findings among the document's problems."""
    try:
        return model.model_validate(document.content, context={"folder": Path(document.file).parent})
    except ValidationError as refused:
        for error in refused.errors(include_url=False):
            document.problems.append(_problem(document, error, model))
        return None


def _problem(document: Document, error: Any, model: type[Part]) -> Problem:
    """Pydantic's finding as a problem of ours: its place, its rule, the nearest valid name."""
    path: KeyPath = tuple(error["loc"])
    of_key = path[-1:] == ("[key]",)
    path = path[:-1] if of_key else path
    if error["type"] == "missing":
        return document.problem(path, "the key is missing", of_key=True)
    if error["type"] == "extra_forbidden":
        return _unknown_key(document, path, model)
    while path not in document.places:  # a name that stands for a mapping: its place is the name's
        path = path[:-1]
    if error["input"] is None:
        return document.problem(path, "is empty: give it a value, or leave the key out", of_key=True)
    broken = error.get("ctx", {}).get("error")
    if isinstance(broken, RuleError):
        return document.problem(path, broken.rule, nearest_valid=broken.nearest, of_key=of_key)
    return document.problem(path, _WRONG_KIND.get(error["type"], error["msg"]))


def _unknown_key(document: Document, path: KeyPath, model: type[Part]) -> Problem:
    part = _part_at(path[:-1], model)
    key, known = str(path[-1]), [field.alias or name for name, field in part.model_fields.items()]
    what = "factor" if path[:-1] == ("scenario", "variables") else "key"
    if key in part.later:
        return document.problem(path, f"this {what} is not available yet", of_key=True)
    if key in part.moved:
        return document.problem(path, f"this {what} stands in {part.moved[key]}", of_key=True)
    close = nearest(key, known)
    rule = f"unknown {what}" if close else f"unknown {what}; known: {listed(known)}"
    return document.problem(path, rule, nearest_valid=close, of_key=True)


def _part_at(path: KeyPath, model: type[Part]) -> type[Part]:
    """The model of the mapping at the path; a mapping of names, such as brokers, has one model for all."""
    found: Any = model
    for part in path:
        is_model = isinstance(found, type) and issubclass(found, Part)
        found = found.model_fields[part].annotation if is_model else get_args(found)[-1]
        if isinstance(found, UnionType):  # a mapping that may be left out altogether
            found = get_args(found)[0]
    inner: type[Part] = found
    return inner
