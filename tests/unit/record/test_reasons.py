import pytest

from brokerlab.record.reasons import in_short

pytestmark = pytest.mark.unit


def test_reasons_of_one_kind_are_told_once_and_counted():
    reasons = [
        "the network is not as claimed: a>b: claims 5 ms, measured 7 ms",
        "CPU steal: 9 % is above 5 %",
        "the network is not as claimed: b>a: claims 5 ms, measured 8 ms",
        "the network is not as claimed: a>c: claims 5 ms, measured 6 ms",
    ]

    assert in_short(reasons) == (
        "the network is not as claimed: a>b: claims 5 ms, measured 7 ms, and 2 more like it; "
        "CPU steal: 9 % is above 5 %"
    )
    assert in_short([]) == ""
