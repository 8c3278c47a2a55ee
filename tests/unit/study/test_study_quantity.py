import math

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brokerlab.study import quantity as q
from brokerlab.study.problems import RuleError

# The machine may be busy: how long an example takes says nothing here.
IN_ANY_TIME = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
POSITIVE = st.floats(min_value=1e-12, max_value=1e15)


@pytest.mark.parametrize(
    ("read", "written", "expected"),
    [
        (q.read_bytes, "64 B", 64),
        (q.read_bytes, "64B", 64),
        (q.read_bytes, "1.5 kB", 1500),
        (q.read_bytes, "2 KiB", 2048),
        (q.read_bytes, "1 MB", 10**6),
        (q.read_bytes, "1 MiB", 2**20),
        (q.read_bytes, "3 GiB", 3 * 2**30),
        (q.read_seconds, "3 s", 3.0),
        (q.read_seconds, " 2.5 s ", 2.5),
        (q.read_seconds, "5 ms", 0.005),
        (q.read_seconds, "250 us", 0.00025),
        (q.read_seconds, "250 \u00b5s", 0.00025),
        (q.read_seconds, "250 \u03bcs", 0.00025),
        (q.read_seconds, "10 ns", 1e-8),
        (q.read_seconds, "2 min", 120.0),
        (q.read_seconds, "1.5 h", 5400.0),
        (q.read_milliseconds, "5 ms", 5.0),
        (q.read_milliseconds, "0.1 s", 100.0),
        (q.read_per_s, "200/s", 200.0),
        (q.read_per_s, "200 /s", 200.0),
        (q.read_per_s, "12/min", 0.2),
        (q.read_per_s, "1e3/s", 1000.0),
        (q.read_percent, "70 %", 70.0),
        (q.read_percent, "99.99%", 99.99),
        (q.read_bits_per_s, "100 Mbit/s", 1e8),
        (q.read_bits_per_s, "64 kbit/s", 64000.0),
    ],
)
def test_quantity_is_read_into_one_unit(read, written, expected):
    assert read(written) == expected


@pytest.mark.parametrize(
    ("read", "written", "proposal"),
    [
        (q.read_seconds, 5, '"5 s"'),
        (q.read_seconds, 0.5, '"0.5 s"'),
        (q.read_seconds, "5", '"5 s"'),
        (q.read_bytes, 64, '"64 B"'),
        (q.read_per_s, 200, '"200/s"'),
        (q.read_percent, 70, '"70 %"'),
        (q.read_bits_per_s, 9, '"9 bit/s"'),
    ],
)
def test_bare_number_is_refused_with_what_to_write(read, written, proposal):
    with pytest.raises(RuleError, match="needs its unit: write " + proposal):
        read(written)


@pytest.mark.parametrize(
    ("read", "written", "nearest"),
    [
        (q.read_bytes, "64 KB", "64 kB"),
        (q.read_bytes, "64 kib", "64 KiB"),
        (q.read_bytes, "64 bytes", "64 B"),
        (q.read_seconds, "5 sec", "5 s"),
        (q.read_seconds, "5 m", "5 min"),
        (q.read_seconds, "5 Ms", "5 ms"),
        (q.read_per_s, "5 msg/s", "5/s"),
        (q.read_per_s, "5/sec", "5/s"),
        (q.read_percent, "5 percent", "5 %"),
        (q.read_bits_per_s, "5 Mbps", "5 Mbit/s"),
    ],
)
def test_unknown_unit_proposes_the_nearest(read, written, nearest):
    with pytest.raises(RuleError, match="unknown unit") as caught:
        read(written)

    assert caught.value.nearest == nearest


def test_unit_near_to_none_lists_those_that_are_known():
    with pytest.raises(RuleError, match=r"known: ns, us, .* and h") as caught:
        q.read_seconds("5 fortnights")

    assert caught.value.nearest is None


@pytest.mark.parametrize("written", ["", "s", "five s", None, True, [], {}, ".5 s", "1,000 s", "1_000 s", "nan s"])
def test_text_that_is_no_quantity_is_refused(written):
    with pytest.raises(RuleError, match='must be a duration, such as "5 s"'):
        q.read_seconds(written)


def test_fraction_of_a_byte_is_refused():
    with pytest.raises(RuleError, match="whole number of bytes"):
        q.read_bytes("1.5 B")


def test_number_beyond_every_float_is_refused_at_once():
    with pytest.raises(RuleError, match="too large"):
        q.read_seconds("1e999 h")


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (64, "64 B"),
        (1000, "1 kB"),
        (1024, "1 KiB"),
        (1536, "1536 B"),
        (2**20, "1 MiB"),
        (5 * 10**6, "5 MB"),
    ],
)
def test_size_is_written_in_the_largest_whole_unit(size_bytes, text):
    assert q.bytes_text(size_bytes) == text


@IN_ANY_TIME
@given(st.integers(min_value=0, max_value=2**48))
def test_size_reads_back_as_written(size_bytes):
    assert q.read_bytes(q.bytes_text(size_bytes)) == size_bytes


@IN_ANY_TIME
@given(POSITIVE)
def test_other_quantities_read_back_as_written(number):
    assert q.read_seconds(q.seconds_text(number)) == number
    assert q.read_milliseconds(q.milliseconds_text(number)) == number
    assert q.read_per_s(q.per_s_text(number)) == number
    assert q.read_percent(q.percent_text(number)) == number
    assert q.read_bits_per_s(q.bits_per_s_text(number)) == number


def read_or_rule(text):
    try:
        return q.read_seconds(text)
    except RuleError as broken:
        return broken.rule


@IN_ANY_TIME
@given(st.text(max_size=40) | st.from_regex(r"[+-]?[0-9.e]{0,9} ?(s|ms|h|xs)", fullmatch=True))
def test_any_text_is_read_or_refused(text):
    outcome = read_or_rule(text)

    assert math.isfinite(outcome) if isinstance(outcome, float) else outcome
