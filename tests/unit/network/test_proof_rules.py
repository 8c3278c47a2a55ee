"""When a link is what it claims, and what carries it (design section 5.5)."""

from dataclasses import replace

import numpy as np
import pytest

from brokerlab.network import columns
from brokerlab.network.probing import Train, checksum
from brokerlab.network.proof import Measured, problems
from brokerlab.network.tables import write_claim
from brokerlab.stats.binomial import expected_range
from brokerlab.study.topology import Direction, Link

DIRECTION = Direction(delay_ms=20.0, rate_bits_per_s=10e6, loss_percent=1.0)
LINK = Link(DIRECTION, DIRECTION)
ROW = Measured("a>b", "a-b", "userspace", 40.0, 40.0, 20.0, 20.0, 10e6, 10e6, 1.0, 1.0, 1000)


@pytest.mark.parametrize(
    ("change", "is_kept"),
    [
        ({}, True),
        ({"measured_rtt_ms": 41.9}, True),
        ({"measured_rtt_ms": 42.3}, False),  # 5 % of 40 ms, and 0.09 ms for the probe itself at 10 Mbit/s
        ({"measured_rtt_ms": None}, False),
        ({"measured_rate_bits_per_s": 9.6e6}, True),
        ({"measured_rate_bits_per_s": 9.4e6}, False),
        ({"measured_rate_bits_per_s": None}, False),
        ({"measured_loss_percent": 2.2}, True),
        ({"measured_loss_percent": 2.3}, False),  # the 99.9 % interval of 1 % of 1000 is 2 to 22
        ({"measured_loss_percent": 0.1}, False),
    ],
)
def test_tolerances(change, is_kept):
    assert (problems(replace(ROW, **change), LINK, DIRECTION) == []) is is_kept


def test_short_links_have_three_tenths_of_a_millisecond():
    link = Link(Direction(0.25), Direction(0.25))
    row = replace(ROW, claimed_rtt_ms=0.5, measured_rtt_ms=0.79, claimed_rate_bits_per_s=None, claimed_loss_percent=0.0,
                  measured_loss_percent=0.0)  # fmt: skip

    assert problems(row, link, link.there) == []
    assert problems(replace(row, measured_rtt_ms=0.81), link, link.there)


def test_a_link_that_claims_no_loss_may_lose_nothing():
    row = replace(ROW, claimed_loss_percent=0.0, measured_loss_percent=0.1)

    found = problems(row, LINK, replace(DIRECTION, loss_percent=0.0))

    assert found == ["a>b: claims a loss of 0 %, measured 0.10 % of 1000 probes"]


def test_expected_range_is_the_binomial_one():
    assert expected_range(10, 0.5, confidence=0.95) == (0.2, 0.8)
    assert expected_range(200, 0.0, confidence=0.999) == (0.0, 0.0)
    assert expected_range(0, 0.5, confidence=0.95) == (0.0, 1.0)
    low, high = expected_range(1000, 0.05, confidence=0.999)
    wide_low, wide_high = expected_range(1000, 0.05, confidence=0.999, correlation=0.25)
    assert wide_low < low < 0.05 < high < wide_high


def test_correlated_losses_keep_their_share():
    """The chain's own balance: p = p P(loss after loss) + (1 - p) P(loss after pass)."""
    row = np.zeros(columns.CLAIM_COLUMNS, dtype=np.int64)
    write_claim(row, Direction(loss_percent=5.0, correlation_percent=40.0), seed=1)

    after_loss, after_pass = row[columns.LOSS_AFTER_LOSS] / columns.SCALE, row[columns.LOSS_AFTER_PASS] / columns.SCALE
    assert 0.05 * after_loss + 0.95 * after_pass == pytest.approx(0.05)
    assert after_loss - after_pass == pytest.approx(0.4)


def test_rate_is_the_slope_of_arrivals():
    train = Train("", "", "", 100, 0.001, frame_bytes=1250)
    train.arrivals = [(number, 0, 1_000_000 * number) for number in range(100)]  # 1250 B every millisecond

    assert train.rate_bits_per_s == pytest.approx(10e6)


def test_train_counts_what_never_came_and_not_copies():
    train = Train("", "", "", 4, 0.001, sent=4)
    train.arrivals = [(0, 0, 2_000_000), (2, 0, 4_000_000), (2, 0, 9_000_000)]

    assert train.lost == 2
    assert train.delay_ms == 3.0


def test_checksum_of_the_example_of_rfc_1071():
    assert checksum(bytes.fromhex("0001f203f4f5f6f7")) == 0xFFFF ^ 0xDDF2
