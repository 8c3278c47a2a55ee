"""The quality model: which features are judged, on which scale, and what every level of it means."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from brokerlab.errors import UserError
from brokerlab.study.document import Document, read_document
from brokerlab.study.nearest import listed, nearest
from brokerlab.study.problems import StudyError

LEVEL_RULES = ("count", "count+1", "several")
_NEEDED = ("title", "characteristic", "subcharacteristic", "group", "anchors")
_KNOWN = (*_NEEDED, "formula", "items", "level", "member")


@dataclass(frozen=True, slots=True)
class Feature:
    """What is judged; its level goes from 1 to the roof."""

    id: str
    title: str
    characteristic: str
    subcharacteristic: str
    group: str  # of features, such as "network manager" or "technical"
    formula: str  # where the metric comes from
    anchors: tuple[str, ...]  # what each level means, from 1
    items: tuple[str, ...] = ()  # facts that a rater may list; empty: any
    level_rule: str = ""  # how a list of facts becomes a level; empty: only a level is an answer
    member_group: str = ""  # the group of brokers that reach `member_from`
    member_from: int = 0

    @property
    def roof(self) -> int:
        return len(self.anchors)

    def level_of(self, facts: Sequence[str]) -> int:
        """The level that a list of facts comes to, at least 1."""
        number = len(set(facts))
        by_rule = {"count": number, "count+1": number + 1, "several": 1 if number < 2 else 2}
        return max(1, min(self.roof, by_rule[self.level_rule]))


@dataclass(frozen=True, slots=True)
class Model:
    name: str
    title: str
    features: tuple[Feature, ...]

    def feature(self, feature_id: str) -> Feature:
        return next(each for each in self.features if each.id == feature_id)

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(each.id for each in self.features)


def model_names() -> tuple[str, ...]:
    """The models that come with brokerlab."""
    return tuple(sorted(path.stem for path in _folder().glob("*.yaml")))


def read_model(name: str = "iso25010") -> Model:
    """The model of that name, or of the file of that name; everything that is wrong is told at once."""
    path = Path(name)
    if name in model_names():
        path = _folder() / f"{name}.yaml"
    elif path.suffix not in (".yaml", ".yml") and not path.exists():
        close = nearest(name, model_names())
        hint = f"did you mean {close}?" if close else f"models are {listed(model_names())}; or give a YAML file"
        raise UserError(f"no quality model is called {name!r}", hint=hint)
    document = read_document(path)
    features = document.mapping("features")
    for key in set(document.content) - {"brokerlab", "model", "title", "features"}:
        document.add((key,), "unknown key; known: brokerlab, model, title and features", of_key=True)
    if not features:
        document.add(("features",), "a model has features", of_key=True)
    read = [_feature(document, key) for key in features]
    if document.problems:
        raise StudyError(document.problems)
    title = str(document.get("title") or document.get("model") or path.stem)
    return Model(str(document.get("model") or path.stem), title, tuple(each for each in read if each is not None))


def _feature(document: Document, key: str) -> Feature | None:
    here = ("features", key)
    about = document.mapping(*here)
    before = len(document.problems)
    for name in about:
        if name not in _KNOWN:
            document.add((*here, name), "unknown key", nearest_valid=nearest(name, _KNOWN), of_key=True)
    for name in _NEEDED:
        if not about.get(name):
            document.add((*here, name), "the key is missing", of_key=True)
    anchors = about.get("anchors")
    if anchors and not _is_scale(anchors):
        document.add((*here, "anchors"), "levels go from 1 without a gap, each with its meaning", of_key=True)
    rule = str(about.get("level") or "")
    if rule and rule not in LEVEL_RULES:
        document.add((*here, "level"), f"must be {listed(LEVEL_RULES)}", nearest_valid=nearest(rule, LEVEL_RULES))
    if about.get("items") and not rule:
        document.add((*here, "items"), "a list of facts needs `level`: how it becomes one", of_key=True)
    if len(document.problems) > before:
        return None
    return _as_feature(key, about, rule)


def _as_feature(key: str, about: Mapping[str, Any], rule: str) -> Feature:
    member = about.get("member") or {}
    anchors: Mapping[str, Any] = about["anchors"]
    return Feature(
        id=key,
        title=str(about["title"]),
        characteristic=str(about["characteristic"]),
        subcharacteristic=str(about["subcharacteristic"]),
        group=str(about["group"]),
        formula=str(about.get("formula") or "own definition"),
        anchors=tuple(str(anchors[str(level)]) for level in range(1, len(anchors) + 1)),
        items=tuple(str(item) for item in about.get("items") or ()),
        level_rule=rule,
        member_group=str(member.get("group", "")),
        member_from=int(member.get("from", 0)),
    )


def _is_scale(anchors: Any) -> bool:
    return isinstance(anchors, dict) and sorted(anchors) == sorted(str(n) for n in range(1, len(anchors) + 1))


def _folder() -> Path:
    return Path(str(files("brokerlab.quality") / "models"))
