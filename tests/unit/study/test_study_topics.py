import pytest

from brokerlab.study.problems import RuleError
from brokerlab.study.topics import (
    check_padding,
    check_publish_topic,
    check_subscribe_filter,
    check_subscribe_filters,
    expand,
    filters_of,
    may_match,
    topic_matches,
    topics_of,
)
from brokerlab.study.values import Topics


# The examples of MQTT 3.1.1 section 4.7, and the corners beside them.
@pytest.mark.parametrize(
    ("topic_filter", "topic", "expected"),
    [
        ("sport/tennis/player1/#", "sport/tennis/player1", True),
        ("sport/tennis/player1/#", "sport/tennis/player1/ranking", True),
        ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", True),
        ("sport/tennis/player1/#", "sport/tennis/player10", False),
        ("sport/#", "sport", True),
        ("#", "a", True),
        ("#", "a/b/c", True),
        ("#", "/", True),
        ("sport/tennis/+", "sport/tennis/player1", True),
        ("sport/tennis/+", "sport/tennis/player1/ranking", False),
        ("sport/+", "sport", False),
        ("sport/+", "sport/", True),
        ("+/+", "/finance", True),
        ("/+", "/finance", True),
        ("+", "/finance", False),
        ("+/tennis/#", "sport/tennis", True),
        ("#", "$SYS/broker/uptime", False),
        ("+/monitor/Clients", "$SYS/monitor/Clients", False),
        ("$SYS/#", "$SYS/broker/uptime", True),
        ("$SYS/#", "$SYS", True),
        ("$SYS/monitor/+", "$SYS/monitor/Clients", True),
        ("a/b", "a/b", True),
        ("a/b", "a/B", False),
        ("a/b", "a", False),
        ("a", "a/b", False),
        ("a//b", "a/b", False),
        ("a/+/b", "a//b", True),
    ],
)
def test_filter_matches_topic_as_specified(topic_filter, topic, expected):
    assert topic_matches(topic_filter, topic) is expected


def test_expand_puts_numbers_in_the_place_of_placeholders():
    assert expand("plant/{publisher}/x{publisher}", publisher=12) == "plant/12/x12"
    assert expand("plant/{subscriber}", subscriber=0) == "plant/0"
    assert expand("plant/all", publisher=3) == "plant/all"


@pytest.mark.parametrize(
    ("subscribe", "publish", "expected"),
    [
        ("brokerlab/#", "brokerlab/{publisher}", True),
        ("brokerlab/{subscriber}", "brokerlab/{publisher}", True),
        ("brokerlab/5", "brokerlab/{publisher}", True),
        ("+/{subscriber}", "brokerlab/{publisher}", True),
        ("brokerlab", "brokerlab/{publisher}", False),
        ("brokerlab/+/+", "brokerlab/{publisher}", False),
        ("other/{subscriber}", "brokerlab/{publisher}", False),
    ],
)
def test_patterns_may_match(subscribe, publish, expected):
    assert may_match(subscribe, publish) is expected


@pytest.mark.parametrize("pattern", ["a", "/", "a/{publisher}", "größe/{publisher}/t", "a b", "1{publisher}2-{topic}3"])
def test_publish_topic_is_accepted(pattern):
    assert check_publish_topic(pattern) == pattern


@pytest.mark.parametrize(
    ("pattern", "rule"),
    [
        ("", "at least one character"),
        (7, "at least one character"),
        ("a/+/b", "wildcards"),
        ("a/#", "wildcards"),
        ("$SYS/a", "belong to the broker"),
        ("a\0b", "null character"),
        ("a/{subscriber}", r"unknown placeholder \{subscriber\}"),
        ("a/{}", r"unknown placeholder \{\}"),
        ("a/{publisher!r}", r"unknown placeholder \{publisher!r\}"),
        ("a/{publisher:3}", r"unknown placeholder \{publisher:3\}"),
        ("a/{publisher", "braces"),
        ("a/{publisher}{topic}", r'"\{publisher\}\{topic\}" run together'),
        ("a/{topic}12{publisher}/b", r'"\{topic\}12\{publisher\}" run together'),
        ("x" * 65_536, "at most 65535 bytes"),
        ("{publisher}" + "x" * 65_530, "at most 65535 bytes"),
    ],
)
def test_publish_topic_is_refused(pattern, rule):
    with pytest.raises(RuleError, match=rule):
        check_publish_topic(pattern)


@pytest.mark.parametrize("pattern", ["#", "+", "a/#", "+/a/+", "a/{subscriber}/#", "/", "$SYS/#"])
def test_subscribe_filter_is_accepted(pattern):
    assert check_subscribe_filter(pattern) == pattern


@pytest.mark.parametrize(
    ("pattern", "rule"),
    [
        ("a/#/b", "last level"),
        ("a#", "last level"),
        ("a/b#", "last level"),
        ("##", "last level"),
        ("a+/b", "alone"),
        ("a/++", "alone"),
        ("$share/g/a", "the groups of a shared subscription in topics.share"),
        ("a/{topics}", "unknown placeholder"),
        ("a/{subscriber}{topic}", "run together"),
        ("", "at least one character"),
    ],
)
def test_subscribe_filter_is_refused(pattern, rule):
    with pytest.raises(RuleError, match=rule):
        check_subscribe_filter(pattern)


def test_topics_of_a_publisher_are_numbered():
    assert topics_of(Topics("plant/{publisher}/{topic}", count=3), 7) == ["plant/7/0", "plant/7/1", "plant/7/2"]


def test_filters_stand_for_all_publishers_and_topics():
    """F-14: a list of every topic instead of a wildcard."""
    topics = Topics("p/{publisher}/{topic}", ("p/{publisher}/{topic}", "s/{subscriber}"), count=2)

    assert filters_of(topics, 5, publishers=2) == ("p/0/0", "p/0/1", "p/1/0", "p/1/1", "s/5")


@pytest.mark.parametrize(
    ("topics", "topic", "own_filters"),
    [
        (Topics("a/{publisher}", "a/#", depth=4), "a/1/x/x", ("a/#",)),
        (Topics("a/{publisher}", "a/+", depth=4), "a/1/x/x", ("a/+/+/+",)),
        (Topics("a/{publisher}", "a/{subscriber}", length_bytes=9), "a/1/xxxxx", ("a/1/xxxxx",)),
        (Topics("a/{publisher}", "a/1", depth=4, length_bytes=9), "a/1/x/xxx", ("a/1/x/xxx",)),
        (Topics("ä/{publisher}", "ä/1", length_bytes=9), "ä/1/xxxx", ("ä/1/xxxx",)),
    ],
)
def test_padding_makes_topics_deep_and_long_and_filters_hear_them_still(topics, topic, own_filters):
    """F-14: topic-length sweeps; lengths are bytes, not characters."""
    assert topics_of(topics, 1) == [topic]
    assert filters_of(topics, 1, publishers=2) == own_filters
    assert all(topic_matches(each, topic) for each in own_filters)


@pytest.mark.parametrize(
    ("topics", "rule"),
    [
        (Topics("a/b/c", depth=2), "3 levels already"),
        (Topics("a/b", depth=2, length_bytes=50), "at least 3"),
        (Topics("a/{publisher}", length_bytes=5), "6 bytes"),
    ],
)
def test_padding_that_cannot_be_exact_is_refused(topics, rule):
    with pytest.raises(RuleError, match=rule):
        check_padding(topics, publishers=11)


@pytest.mark.parametrize(("written", "rule"), [([], "empty list"), (["a", "a"], "twice"), (["a", "b#"], "last level")])
def test_lists_of_filters_are_refused(written, rule):
    with pytest.raises(RuleError, match=rule):
        check_subscribe_filters(written)
