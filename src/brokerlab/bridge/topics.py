"""Topics on their way over a bridge: which filters overlap, and what a topic becomes.

A rewriting is a filter and a template. In the template {1}, {2}, … stand for the levels that the filter's + matched,
and {#} for all that its # did:

    "plant/+/temperature": "site-7/{1}/t"        "plant/#": "site-7/{#}"
"""

import re

from brokerlab.study.problems import RuleError
from brokerlab.study.topics import topic_matches

_PLACE = re.compile(r"\{([^{}]*)\}")


def rewritten(topic: str, rewritings: tuple[tuple[str, str], ...]) -> str:
    """What the first rewriting that matches makes of the topic; the topic itself where none does."""
    for topic_filter, template in rewritings:
        if topic_matches(topic_filter, topic):
            return _filled(template, _matched(topic_filter, topic))
    return topic


def check_template(topic_filter: str, template: str) -> str:
    """The template, if the filter has all that it names, and what comes of it can be a topic."""
    levels = topic_filter.split("/")
    known = [str(number + 1) for number in range(levels.count("+"))] + (["#"] if levels[-1] == "#" else [])
    for name in _PLACE.findall(template):
        if name not in known:
            raise RuleError(
                f"{{{name}}} stands for nothing in {topic_filter}; known: " + ", ".join(f"{{{each}}}" for each in known)
                if known
                else f"{{{name}}} stands for nothing: {topic_filter} has no wildcard"
            )
    rest = _PLACE.sub("x", template)
    if not template or any(character in rest for character in "+#{}\0") or rest.startswith("$"):
        raise RuleError("must be a topic, without wildcards and not empty; {1} and {#} stand for what + and # matched")
    return template


def outgoing_filters(filters: tuple[str, ...], rewritings: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    """Filters that match all that may come out of a route."""
    changed = tuple(_PLACE.sub(lambda place: "#" if place[1] == "#" else "+", template) for _, template in rewritings)
    is_all = any(topic_filter == "#" or set(filters) <= {topic_filter} for topic_filter, _ in rewritings)
    return tuple(_as_filter(each) for each in changed) + (() if is_all else filters)


def overlap(first: str, second: str) -> bool:
    """Whether some topic matches both filters."""
    ours, theirs = first.split("/"), second.split("/")
    for number in range(max(len(ours), len(theirs))):
        mine = ours[number] if number < len(ours) else None
        other = theirs[number] if number < len(theirs) else None
        if mine == "#" or other == "#":
            return True
        if mine is None or other is None or (mine != other and "+" not in (mine, other)):
            return False
    return True


def _as_filter(text: str) -> str:
    """A template whose places are wildcards: a level that is only partly one is taken for any level."""
    levels: list[str] = []
    for level in text.split("/"):
        if "#" in level:
            return "/".join([*levels, "#"])
        levels.append("+" if "+" in level else level)
    return "/".join(levels)


def _matched(topic_filter: str, topic: str) -> dict[str, str]:
    found: dict[str, str] = {}
    levels = topic.split("/")
    for number, level in enumerate(topic_filter.split("/")):
        if level == "+":
            found[str(len(found) + 1)] = levels[number]
        elif level == "#":
            found["#"] = "/".join(levels[number:])
    return found


def _filled(template: str, found: dict[str, str]) -> str:
    """An empty {#}, where the filter matched its own parent level, takes the slash before it along."""
    if found.get("#") == "":
        template = template.replace("/{#}", "")
    return _PLACE.sub(lambda place: found[place[1]], template)
