"""Claims as data: what a paper says in words, and the rule that holds it against numbers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from brokerlab.errors import UserError
from brokerlab.study.nearest import listed, nearest

# The keys that a kind of rule needs, and those that it may have.
_NEEDED: Mapping[str, frozenset[str]] = {
    "order": frozenset({"source", "metric", "lowest", "each"}),
    "change": frozenset({"source", "metric", "from", "to"}),
    "limit": frozenset({"source", "metric", "each"}),
    "formula": frozenset({"source", "each", "of", "expression"}),
    "share": frozenset({"source", "outcome", "group"}),
    "member": frozenset({"broker", "group", "is"}),
    "stands": frozenset({"source", "metric", "environment", "brokers"}),
    "survive": frozenset({"source", "qos"}),
}
_BOUNDS = ("at_least", "at_most")
_ALLOWED: Mapping[str, frozenset[str]] = {
    "order": frozenset({"of", "where", "among", "without", "first", "last", "order"}),
    "change": frozenset({"of", "where", "each", "lowest", *_BOUNDS}),
    "limit": frozenset({"where", *_BOUNDS}),
    "formula": frozenset({"equals", "within", "within_percent", "below", "above", "also"}),
    "share": frozenset({"rest", "says"}),
}
# Of these kinds exactly one of the keys says what is claimed; bounds may be one or both.
_ONE_OF: Mapping[str, tuple[str, ...]] = {
    "order": ("first", "last", "order"),
    "formula": ("equals", "below", "above"),
}
RULES = tuple(_NEEDED)


@dataclass(frozen=True, slots=True)
class Claim:
    """One sentence of a paper in our words, and its rule."""

    id: str
    section: str
    text: str
    kind: str
    rule: Mapping[str, Any] = field(hash=False)

    @property
    def paper(self) -> str:
        return self.id.split("-", maxsplit=1)[0]

    def list_of(self, key: str) -> list[str] | None:
        """A list of names, whether one or several are written; None where nothing is."""
        written = self.rule.get(key)
        return None if written is None else _texts(written)

    def where(self) -> dict[str, list[str]]:
        """The levels that the claim is about, by factor."""
        return {str(name): _texts(levels) for name, levels in self.rule.get("where", {}).items()}

    def in_words(self) -> str:
        return f"{self.kind}: " + ", ".join(f"{key} {_words(value)}" for key, value in self.rule.items())


def read_claims(path: Path | None = None) -> tuple[Claim, ...]:
    """The claims that come with brokerlab, or those of a file; everything that is wrong is told at once."""
    place = "claims.yaml" if path is None else str(path)
    try:
        text = (files("brokerlab.published") / "claims.yaml" if path is None else path).read_text(encoding="utf-8")
        content = YAML(typ="safe", pure=True).load(text)
    except (OSError, UnicodeDecodeError, YAMLError) as problem:
        raise UserError(f"{place}: the claims cannot be read: {problem}") from problem
    if not isinstance(content, list):
        raise UserError(f"{place}: a file of claims is a list, each with id, section, text and rule")
    claims = [_claim(place, number, entry) for number, entry in enumerate(content, start=1)]
    twice = sorted({claim.id for claim in claims if sum(other.id == claim.id for other in claims) > 1})
    if twice:
        raise UserError(f"{place}: these claims are there twice: {listed(twice)}")
    return tuple(claims)


def _claim(place: str, number: int, entry: Any) -> Claim:
    if not isinstance(entry, dict) or not {"id", "section", "text", "rule"} <= set(entry):
        raise UserError(f"{place}: claim {number}: needs id, section, text and rule")
    where, rule = f"{place}: claim {entry['id']}", entry["rule"]
    kind = rule.get("kind") if isinstance(rule, dict) else None
    if kind not in RULES:
        close = nearest(str(kind), RULES)
        raise UserError(
            f"{where}: no rule is called {kind!r}",
            hint=f"did you mean {close}?" if close else f"rules: {listed(RULES)}",
        )
    settings = {key: value for key, value in rule.items() if key != "kind"}
    missing = sorted(_NEEDED[kind] - set(settings))
    unknown = sorted(set(settings) - _NEEDED[kind] - _ALLOWED.get(kind, frozenset()))
    if missing or unknown:
        told = [f"lacks {listed(missing)}"] * bool(missing) + [f"has no key {listed(unknown)}"] * bool(unknown)
        raise UserError(f"{where}: the rule {kind} {' and '.join(told)}")
    _check_what_is_claimed(where, kind, settings)
    return Claim(str(entry["id"]), str(entry["section"]), str(entry["text"]), kind, settings)


def _check_what_is_claimed(where: str, kind: str, settings: Mapping[str, Any]) -> None:
    choices = _ONE_OF.get(kind, ())
    if choices and sum(key in settings for key in choices) != 1:
        raise UserError(f"{where}: the rule {kind} needs one of {listed(choices)}")
    is_bounded = any(key in settings for key in _BOUNDS)
    if kind == "limit" and not is_bounded:
        raise UserError(f"{where}: the rule limit needs {' or '.join(_BOUNDS)}")
    if kind == "change" and is_bounded == ("lowest" in settings):
        raise UserError(f"{where}: the rule change needs lowest, or {' or '.join(_BOUNDS)} of the ratio")
    if not isinstance(settings.get("where", {}), dict):
        raise UserError(f"{where}: where is a mapping of factors to one level or several")


def _texts(written: Any) -> list[str]:
    return [str(each) for each in written] if isinstance(written, list) else [str(written)]


def _words(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return " > ".join(map(str, value)) or "all together"
    if isinstance(value, dict):
        return " ".join(f"{name} {' or '.join(_texts(each))}" for name, each in value.items())
    return str(value)
