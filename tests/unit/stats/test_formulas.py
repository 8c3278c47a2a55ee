"""The papers' formulas as printed and as corrected (requirements.md, sections 0 and 1)."""

import pytest

from brokerlab.stats import formulas

pytestmark = pytest.mark.unit


def test_responsiveness_over_what_arrived():
    """M-26: three of four arrived, after 2, 4 and 6 ms; dividing by four hides the loss."""
    assert formulas.responsiveness([2, 4, 6]) == 4
    assert formulas.responsiveness_printed([2, 4, 6], published=4) == 3
    assert formulas.responsiveness([]) is None


def test_throughput_of_a_window():
    assert formulas.throughput(30, seconds=2.0) == 15
    assert formulas.throughput(30, seconds=0.0) is None


def test_failure_rate_is_a_share_and_not_a_rate():
    """M-26, equation 10: 8.72 % of 218,772 messages; as printed it has the unit 1/s."""
    unique = 218_772 - 19_077

    assert formulas.failure_percent(expected=218_772, unique=unique) == pytest.approx(8.72, abs=5e-4)
    assert formulas.failure_printed(received=218_772, sent=unique, seconds=1000) == pytest.approx(19.077)
    assert formulas.failure_percent(expected=0, unique=0) is None


def test_drop_rate_and_availability_add_up():
    """M-26, equation 11: printed, it is 1 where nothing is dropped."""
    assert formulas.drop_percent(published=200, received=190) == 5
    assert formulas.availability_percent(published=200, received=190) == 95
    assert formulas.drop_printed(published=200, received=200) == 1
    assert formulas.drop_printed(published=200, received=0) is None


@pytest.mark.parametrize(
    ("peak", "cpu", "printed"),
    [(32016.0, 84.29, 37983.15), (9488.0, 89.0, 10660.67)],
)
def test_projected_rates_of_002(peak, cpu, printed):
    """S-11: Mosquitto 1.4.15 in Table 6, QoS 0 and 1."""
    assert round(formulas.projected_rate(peak, cpu_percent=cpu), 2) == printed
    assert not formulas.is_extrapolated(cpu)


def test_projection_from_an_idle_broker():
    """S-11: HiveMQ CE at 63 % of the CPU."""
    assert formulas.is_extrapolated(63.0)
    assert formulas.projected_rate(708.0, cpu_percent=0.0) is None


def test_inter_arrival_times():
    """C-02: gaps 100, 110 and 90 ms."""
    assert formulas.interarrival([0, 100, 210, 300]) == (100, 10)
    assert formulas.interarrival([0, 100]) == (100, None)
    assert formulas.interarrival([0]) == (None, None)


def test_monthly_projections_of_000():
    """M-28: the paper counts 100,000 messages a day, its own data 218,772."""
    assert formulas.undelivered_per_month(8.72, messages_per_day=100_000) == pytest.approx(261_600)
    assert formulas.undelivered_per_month(0.26, messages_per_day=218_772) == pytest.approx(17_064, abs=1)
    assert formulas.hours_lost_per_month(8.72) == pytest.approx(62.784)
