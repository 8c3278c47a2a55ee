"""Links over a grid of claims, measured with tools of others (F-15): run by `make test-networks`, because it takes
minutes. Tolerances are those that a run is held to: rtt 5 % or 0.3 ms, rate 5 %, loss the binomial interval.
"""

import pytest
from network_rig import (
    both,
    iperf_udp,
    kernel_has_netem,
    median_ping_ms,
    needs_networks,
    ping_ms,
    routers,
    two_sites,
)

from brokerlab.network.proof import CONFIDENCE, RATE_SHARE, RTT_MS, RTT_SHARE
from brokerlab.stats.binomial import expected_range

pytestmark = needs_networks
HEADERS_BYTES = 42  # Ethernet, IPv4, UDP: rates are of whole frames


@pytest.fixture(params=["userspace", "netem"])
def netem(request):
    if request.param == "netem" and not kernel_has_netem():
        pytest.skip("this kernel has no netem")
    return request.param == "netem"


@pytest.mark.parametrize("rtt_ms", [0.5, 1, 5, 20, 50, 200, 600])
def test_round_trip(netem, rtt_ms):
    with two_sites(both(delay_ms=rtt_ms / 2), netem=netem) as network:
        source, _, address = routers(network)

        measured_ms = median_ping_ms(source, address)

    assert abs(measured_ms - rtt_ms) <= max(RTT_MS, RTT_SHARE * rtt_ms)


def test_directions_apart(netem):
    """Half of a round trip cannot be pinged: the whole is the sum of two that differ."""
    link = both(delay_ms=5.0)
    with two_sites(type(link)(link.there, type(link.back)(delay_ms=35.0)), netem=netem) as network:
        source, _, address = routers(network)

        assert median_ping_ms(source, address) == pytest.approx(40, rel=RTT_SHARE)


@pytest.mark.parametrize("rate_mbit", [1, 10, 100])
def test_rate(netem, rate_mbit):
    with two_sites(both(delay_ms=1.0, rate_bits_per_s=rate_mbit * 1e6), netem=netem) as network:
        seen = iperf_udp(network, bits_per_s=rate_mbit * 1.3e6, seconds=3, datagram_bytes=1400)

    of_frames = seen["bits_per_second"] * (1400 + HEADERS_BYTES) / 1400
    assert of_frames == pytest.approx(rate_mbit * 1e6, rel=RATE_SHARE)


@pytest.mark.parametrize(("loss_percent", "correlation_percent"), [(0, 0), (0.5, 0), (5, 0), (20, 0), (5, 50)])
def test_loss(netem, loss_percent, correlation_percent):
    link = both(delay_ms=1.0, loss_percent=float(loss_percent), correlation_percent=float(correlation_percent))
    with two_sites(link, netem=netem) as network:
        seen = iperf_udp(network, bits_per_s=2e6, seconds=5, datagram_bytes=200)

    low, high = expected_range(
        seen["packets"], loss_percent / 100, confidence=CONFIDENCE, correlation=correlation_percent / 100
    )
    assert low <= seen["lost_packets"] / seen["packets"] <= high


def test_jitter_spreads_round_trips_evenly(netem):
    with two_sites(both(delay_ms=20.0, jitter_ms=5.0), netem=netem) as network:
        source, _, address = routers(network)
        rtts_ms = ping_ms(source, address, count=400, interval_s=0.005)

    mean = sum(rtts_ms) / len(rtts_ms)
    spread = (sum((each - mean) ** 2 for each in rtts_ms) / len(rtts_ms)) ** 0.5
    assert mean == pytest.approx(40, rel=RTT_SHARE)
    assert spread == pytest.approx((2 * 10**2 / 12) ** 0.5, rel=0.25)  # two uniform ones of 10 ms


def test_duplicates_are_the_share_claimed(netem):
    with two_sites(both(delay_ms=1.0, duplicate_percent=10.0), netem=netem) as network:
        source, _, address = routers(network)
        count = len(ping_ms(source, address, count=500, interval_s=0.005))

    # Each of two directions doubles one in ten: answers are 1.21 times the questions.
    assert count == pytest.approx(500 * 1.21, rel=0.1)


def test_our_own_proof_agrees(netem):
    """What a run is judged by, on a link with everything."""
    link = both(
        delay_ms=10.0, jitter_ms=1.0, loss_percent=2.0, duplicate_percent=1.0, reorder_percent=1.0, rate_bits_per_s=2e7
    )
    with two_sites(link, netem=netem) as network:
        rows = network.measure()

    assert [problem for row in rows for problem in row.problems] == []
