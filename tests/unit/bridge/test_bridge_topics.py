"""Topics on their way over a bridge: rewriting, and filters that overlap (X-03, F-09)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerlab.bridge.topics import check_template, outgoing_filters, overlap, rewritten
from brokerlab.study.problems import RuleError
from brokerlab.study.topics import topic_matches

pytestmark = pytest.mark.unit
LEVELS = st.lists(st.sampled_from("ab"), min_size=1, max_size=3).map("/".join)
FILTERS = st.lists(st.sampled_from("ab+"), min_size=1, max_size=3).flatmap(
    lambda levels: st.sampled_from(["/".join(levels), "/".join([*levels, "#"]), "#"])
)


@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        ("plant/7/t", "site/7"),
        ("plant/7/x/y", "all/7/x/y"),
        ("plant", "all"),
        ("other", "other"),
    ],
)
def test_the_first_rewriting_that_matches_counts(topic, expected):
    assert rewritten(topic, (("plant/+/t", "site/{1}"), ("plant/#", "all/{#}"))) == expected


@pytest.mark.parametrize(
    ("topic_filter", "template"),
    [("a/+", "b/{2}"), ("a/b", "c/{1}"), ("a/+", "b/{#}"), ("a/#", "b/+"), ("a/#", ""), ("a/#", "$SYS/{#}")],
)
def test_a_template_that_cannot_be_filled_is_refused(topic_filter, template):
    with pytest.raises(RuleError):
        check_template(topic_filter, template)


@given(FILTERS, FILTERS, LEVELS)
def test_filters_that_one_topic_matches_overlap(first, second, topic):
    if topic_matches(first, topic) and topic_matches(second, topic):
        assert overlap(first, second)


@given(LEVELS, FILTERS)
def test_what_comes_out_of_a_route_matches_its_outgoing_filters(topic, topic_filter):
    rewritings = (("a/+", "x/{1}/y"), ("a/#", "z/{#}"))
    if topic_matches(topic_filter, topic):
        outgoing = outgoing_filters((topic_filter,), rewritings)
        assert any(topic_matches(each, rewritten(topic, rewritings)) for each in outgoing)
