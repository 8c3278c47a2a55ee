"""Who hears what, against the plainest possible loop."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokerlab.study.hearing import TopicIndex, flows_of
from brokerlab.study.topics import topic_matches

LEVEL = st.sampled_from(["a", "b", "", "$x"])
TOPIC = st.lists(LEVEL, min_size=1, max_size=3).map("/".join).filter(bool)
FILTER = st.builds(
    lambda levels, end: "/".join([*levels, *end]),
    st.lists(st.sampled_from(["a", "b", "", "$x", "+"]), min_size=0, max_size=3),
    st.sampled_from([[], ["#"]]),
).filter(bool)


def counted(topics, filters, count):
    """{(subscriber, publisher): {topic: filters that match}} by asking for every pair."""
    expected = {}
    for subscriber, own in enumerate(filters):
        for channel, topic in enumerate(topics):
            copies = sum(topic_matches(each, topic) for each in own)
            if copies:
                expected.setdefault((subscriber, channel // count), {})[channel % count] = copies
    return expected


def listed(flows):
    found = {}
    for flow in range(flows.size):
        width, first = int(flows.width[flow]), int(flows.first[flow])
        if first < 0:
            own = dict.fromkeys(range(flows.count), int(flows.copies[flow]))
        else:
            entries = slice(first, first + width)
            own = dict(zip(flows.topics[entries].tolist(), flows.topic_copies[entries].tolist(), strict=True))
        found[int(flows.subscriber[flow]), int(flows.publisher[flow])] = own
    return found


@settings(deadline=None)
@given(
    publishers=st.integers(1, 3),
    count=st.integers(1, 3),
    filters=st.lists(st.lists(FILTER, max_size=3, unique=True).map(tuple), max_size=4),
    data=st.data(),
)
def test_flows_are_those_of_asking_every_filter_about_every_topic(publishers, count, filters, data):
    topics = data.draw(st.lists(TOPIC, min_size=publishers * count, max_size=publishers * count))
    flows = flows_of(filters, TopicIndex(lambda: topics, size=len(topics)), count=count)
    expected = counted(topics, filters, count)
    by_channel = np.arange(1, len(topics) + 1)

    assert listed(flows) == expected
    assert list(listed(flows)) == sorted(expected)
    assert flows.sums(by_channel).tolist() == [
        sum(int(by_channel[publisher * count + topic]) for topic in own)
        for (_, publisher), own in sorted(expected.items())
    ]
    assert flows.is_overlapping == any(copies > 1 for own in expected.values() for copies in own.values())


def test_a_filter_that_the_pattern_decides_asks_for_no_topic():
    """A million topics under one wildcard cost nothing."""

    def names():
        pytest.fail("the topics are not needed")

    index = TopicIndex(names, size=1_000_000, pattern="plant/{publisher}/{topic}")

    assert index.heard("plant/#") is None
    assert index.heard("plant/+/+") is None
    assert index.heard("#") is None
