import pytest

from brokerlab.study.nearest import listed, nearest


@pytest.mark.parametrize(
    ("name", "expected"),
    [("qoss", "qos"), ("QOS", "qos"), ("Payload ", "payload"), ("paylod", "payload"), ("xyz", None), ("", None)],
)
def test_nearest_name(name, expected):
    assert nearest(name, ["qos", "payload", "rate"]) == expected


def test_nearest_of_nothing_is_none():
    assert nearest("qos", []) is None


@pytest.mark.parametrize(
    ("names", "phrase"), [([], "none"), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")]
)
def test_names_as_a_phrase(names, phrase):
    assert listed(names) == phrase
