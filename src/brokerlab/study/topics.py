"""Topics and filters: placeholders, padding, what is allowed in them, and which filter matches which topic.

Pure functions on text, by MQTT 3.1.1 section 4.7.

    topics_of     the topics of one publisher; its message `seq` goes to number seq mod count
    filters_of    the filters of one subscriber

Padding makes topics deep (`depth` levels) or long (`length_bytes`) without changing who hears what: levels of x are
added behind the topic, and behind every filter that does not end in # the same levels, or + where it has a +.
"""

import re
from collections.abc import Iterator
from itertools import product

from brokerlab.study.problems import RuleError, refuse_unknown
from brokerlab.study.values import Topics

CONTROL_TOPIC = "brokerlab-control/start"  # has the messages of `start: control`
SHARE = "$share/"
PROBE_PREFIX = "brokerlab-probe/"  # the latency probe publishes below this level
LONGEST_BYTES = 65_535  # MQTT 3.1.1 section 4.7.3: topics are UTF-8 strings with a length of two bytes

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
_TOGETHER = re.compile(r"\{[^{}]*\}[0-9]*\{[^{}]*\}")
_LONGEST_NUMBER = 10  # digits that a placeholder may become
_FILLER = "x"


def expand(
    pattern: str, *, publisher: int | None = None, subscriber: int | None = None, topic: int | None = None
) -> str:
    """The pattern with the number of a publisher, a subscriber or a topic in the place of its placeholder."""
    numbers = {"publisher": publisher, "subscriber": subscriber, "topic": topic}
    for name, number in numbers.items():
        if number is not None:
            pattern = pattern.replace(f"{{{name}}}", str(number))
    return pattern


def topics_of(topics: Topics, publisher: int) -> list[str]:
    """The topics of one publisher, in their order."""
    return [topic_of(topics, publisher, number) for number in range(topics.count)]


def topic_of(topics: Topics, publisher: int, number: int = 0) -> str:
    """One topic of a publisher."""
    return _padded(expand(topics.publish, publisher=publisher, topic=number), topics)


def patterns_of(topics: Topics) -> tuple[str, ...]:
    """The filters as the study has them."""
    return (topics.subscribe,) if isinstance(topics.subscribe, str) else topics.subscribe


def filters_of(topics: Topics, subscriber: int, *, publishers: int) -> tuple[str, ...]:
    """The filters of one subscriber; {publisher} and {topic} stand for all of them, so a pattern may become a list."""
    return tuple(
        dict.fromkeys(
            _padded_filter(each, topics)
            for pattern in patterns_of(topics)
            for each in _expanded(expand(pattern, subscriber=subscriber), publishers=publishers, count=topics.count)
        )
    )


def shared_filter(group: str, topic_filter: str) -> str:
    """The filter of a shared subscription (MQTT 5.0 section 4.8.2; Mosquitto and others know it before 5.0)."""
    return f"{SHARE}{group}/{topic_filter}"


def pattern_of(topics: Topics) -> str:
    """What all topics have in common, with a level that no filter names for each level of padding."""
    return topics.publish + "/\0" * added_levels(topics)


def filter_count(topics: Topics, *, publishers: int) -> int:
    """How many filters a subscriber has, at most."""
    return sum(
        (publishers if "{publisher}" in pattern else 1) * (topics.count if "{topic}" in pattern else 1)
        for pattern in patterns_of(topics)
    )


def added_levels(topics: Topics) -> int:
    """How many levels padding adds to every topic."""
    if topics.depth is None:
        return 0 if topics.length_bytes is None else 1
    return topics.depth - len(topics.publish.split("/"))


def check_padding(topics: Topics, *, publishers: int) -> None:
    """Refuses a depth or a length that the topics have without padding, or could not be padded to exactly."""
    added = added_levels(topics)
    levels = len(topics.publish.split("/"))
    if added < 0:
        raise RuleError(f"the topics have {levels} levels already; give a depth of at least that")
    if topics.length_bytes is None:
        _check_length("the longest of the topics", topic_of(topics, publishers - 1, topics.count - 1))
        return
    if added == 0:
        raise RuleError(f"a length needs one more level to fill; give a depth of at least {levels + 1}, or none")
    longest = expand(topics.publish, publisher=publishers - 1, topic=topics.count - 1)
    least = len(longest.encode()) + 2 * added
    if topics.length_bytes < least:
        raise RuleError(f"the longest of the topics with its padding has {least} bytes; give at least that")


def check_filters(topics: Topics, *, publishers: int, subscribers: int) -> None:
    """Refuses filters that padding makes too long, or the group of a shared subscription, which is a part of them."""
    for pattern in patterns_of(topics):
        text = expand(pattern, publisher=publishers - 1, subscriber=subscribers - 1, topic=topics.count - 1)
        longest = _padded_filter(text, topics)
        _check_length("the longest of the filters", longest)
        for group in topics.share:
            _check_length(f"the filter with {SHARE}{group}/ before it", shared_filter(group, longest))


def _check_length(what: str, text: str) -> None:
    if (length_bytes := len(text.encode())) > LONGEST_BYTES:
        raise RuleError(f"{what} has {length_bytes} bytes; MQTT has {LONGEST_BYTES} at most")


def _expanded(pattern: str, *, publishers: int, count: int) -> Iterator[str]:
    every_publisher = range(publishers) if "{publisher}" in pattern else (0,)
    every_topic = range(count) if "{topic}" in pattern else (0,)
    for publisher, topic in product(every_publisher, every_topic):
        yield expand(pattern, publisher=publisher, topic=topic)


def _padded(topic: str, topics: Topics) -> str:
    padded = topic + f"/{_FILLER}" * added_levels(topics)
    missing = (topics.length_bytes or 0) - len(padded.encode())
    return padded + _FILLER * missing  # nothing where nothing is missing


def _padded_filter(topic_filter: str, topics: Topics) -> str:
    levels = topic_filter.split("/")
    if levels[-1] == "#":
        return topic_filter
    return topic_filter + "/+" * added_levels(topics) if "+" in levels else _padded(topic_filter, topics)


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
    text = _checked_text(pattern, placeholders=("publisher", "topic"))
    if "+" in text or "#" in text:
        raise RuleError("wildcards (+, #) are for filters; a message has one topic")
    if text.startswith("$"):
        raise RuleError("topics that begin with $ belong to the broker")
    return text


def check_subscribe_filters(written: object) -> str | tuple[str, ...]:
    """One filter, or a list of them without repetitions."""
    if not isinstance(written, list):
        return check_subscribe_filter(written)
    filters = tuple(check_subscribe_filter(each) for each in written)
    if not filters:
        raise RuleError("is an empty list: give at least one filter")
    if len(set(filters)) < len(filters):
        raise RuleError("has a filter twice; a broker keeps one subscription for both")
    return filters


def check_subscribe_filter(pattern: object) -> str:
    """The pattern, if every subscriber can subscribe to what it expands to."""
    text = _checked_text(pattern, placeholders=("subscriber", "publisher", "topic"))
    levels = text.split("/")
    if "#" in "".join(levels[:-1]) or ("#" in levels[-1] and levels[-1] != "#"):
        raise RuleError('"#" must be the last level of a filter, alone')
    if any("+" in level and level != "+" for level in levels):
        raise RuleError('"+" must stand alone in its level')
    if levels[0] == "$share":
        raise RuleError("give the filter alone, and the groups of a shared subscription in topics.share")
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
    if (found := _TOGETHER.search(pattern)) is not None:  # 1 and 11, or 11 and 1?
        raise RuleError(f'the numbers of "{found[0]}" run together and cannot be told apart: put / between them')
    if len(_PLACEHOLDER.sub("9" * _LONGEST_NUMBER, pattern).encode()) > LONGEST_BYTES:
        raise RuleError(f"must be at most {LONGEST_BYTES} bytes long")
    return pattern
