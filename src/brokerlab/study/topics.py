"""Topics and filters: placeholders, what is allowed in them, and which filter matches which topic.

Pure functions on text, by MQTT 3.1.1 section 4.7.
"""

import re

from brokerlab.study.problems import RuleError, refuse_unknown

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_LONGEST_BYTES = 65_535  # MQTT 3.1.1 section 4.7.3: topics are UTF-8 strings with a length of two bytes
_LONGEST_NUMBER = 10  # digits that a placeholder may become


def expand(pattern: str, *, publisher: int | None = None, subscriber: int | None = None) -> str:
    """The pattern with the number of a publisher or a subscriber in the place of its placeholder."""
    numbers = {"publisher": publisher, "subscriber": subscriber}
    for name, number in numbers.items():
        if number is not None:
            pattern = pattern.replace(f"{{{name}}}", str(number))
    return pattern


def topic_matches(topic_filter: str, topic: str) -> bool:
    """Whether a subscription to the filter gets messages of the topic."""
    filter_levels, topic_levels = topic_filter.split("/"), topic.split("/")
    if topic.startswith("$") and filter_levels[0] in ("#", "+"):
        return False  # section 4.7.2: a wildcard in the first place does not see the broker's own topics
    for number, level in enumerate(filter_levels):
        if level == "#":
            return True  # also where nothing is left: "a/#" matches its parent level "a"
        if number >= len(topic_levels) or level not in ("+", topic_levels[number]):
            return False
    return len(filter_levels) == len(topic_levels)


def may_match(subscribe: str, publish: str) -> bool:
    """Whether some numbers in the placeholders may make the filter match the topic."""
    filter_levels, topic_levels = subscribe.split("/"), publish.split("/")
    for number, level in enumerate(filter_levels):
        if level == "#":
            return True
        if number >= len(topic_levels):
            return False
        is_open = level == "+" or "{" in level or "{" in topic_levels[number]
        if not is_open and level != topic_levels[number]:
            return False
    return len(filter_levels) == len(topic_levels)


def check_publish_topic(pattern: object) -> str:
    """The pattern, if every publisher can publish to what it expands to."""
    text = _checked_text(pattern, placeholders=("publisher",))
    if "+" in text or "#" in text:
        raise RuleError("wildcards (+, #) are for filters; a message has one topic")
    if text.startswith("$"):
        raise RuleError("topics that begin with $ belong to the broker")
    return text


def check_subscribe_filter(pattern: object) -> str:
    """The pattern, if every subscriber can subscribe to what it expands to."""
    text = _checked_text(pattern, placeholders=("subscriber",))
    levels = text.split("/")
    if "#" in "".join(levels[:-1]) or ("#" in levels[-1] and levels[-1] != "#"):
        raise RuleError('"#" must be the last level of a filter, alone')
    if any("+" in level and level != "+" for level in levels):
        raise RuleError('"+" must stand alone in its level')
    if levels[0] == "$share":
        raise RuleError("shared subscriptions are not available yet")
    return text


def _checked_text(pattern: object, *, placeholders: tuple[str, ...]) -> str:
    if not isinstance(pattern, str) or not pattern:
        raise RuleError("must be a text of at least one character")
    if "\0" in pattern:
        raise RuleError("must not hold the null character (MQTT 3.1.1 section 4.7.3)")
    for name in _PLACEHOLDER.findall(pattern):
        if name not in placeholders:
            refuse_unknown(f"placeholder {{{name}}}", name, known=placeholders)
    if "{" in _PLACEHOLDER.sub("", pattern) or "}" in _PLACEHOLDER.sub("", pattern):
        raise RuleError("braces are for placeholders only")
    if len(_PLACEHOLDER.sub("9" * _LONGEST_NUMBER, pattern).encode()) > _LONGEST_BYTES:
        raise RuleError(f"must be at most {_LONGEST_BYTES} bytes long")
    return pattern
