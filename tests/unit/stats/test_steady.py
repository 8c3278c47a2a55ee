import pytest

from brokerlab.stats.steady import steady_from

pytestmark = pytest.mark.unit


def test_a_slow_start_is_cut():
    assert steady_from([100.0] * 10 + [1.0, 2.0] * 20) == 10


def test_what_is_steady_from_the_start_is_kept_whole():
    assert steady_from([3.0] * 40) == 0


def test_a_ramp_never_settles():
    assert steady_from([float(n) for n in range(60)]) is None


def test_too_few_values_say_nothing():
    assert steady_from([1.0] * 19) is None
