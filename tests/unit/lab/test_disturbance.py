"""What the machine did while the meter was calibrated is kept with it, and too much of it is told."""

import pytest

from brokerlab.lab.calibrate import calibrate
from brokerlab.lab.disturbance import disturbances, most_steal_percent, surroundings_within
from brokerlab.lab.surroundings import Lookout, Reading

pytestmark = pytest.mark.unit


def lookout_of(*seen):
    """Readings at these times, with so much stolen by then; two cores have 200 ticks a second."""
    lookout = Lookout()
    lookout.readings = [
        Reading(
            at_ns=int(at_s * 1e9), swap_used_bytes=0, steal_ticks=stolen, idle_ticks=0,
            all_ticks=int(200 * at_s), wall_less_mono_ns=step_ns,
        )
        for at_s, stolen, step_ns in seen
    ]  # fmt: skip
    return lookout


CALM_THEN_NOT = lookout_of((0, 0, 0), (1, 0, 0), (2, 20, 0), (3, 20, 5_000_000))


@pytest.mark.parametrize(
    ("begin_s", "end_s", "steal_percent", "step_ms"),
    [
        (0.0, 1.0, 0.0, 0.0),
        (1.0, 2.0, 10.0, 0.0),
        (1.2, 1.4, 10.0, 0.0),  # the readings around it are a second apart
        (0.0, 3.0, 20 / 6, 5.0),
        (2.5, 9.0, 0.0, 5.0),  # nothing was read at its end
        (4.0, 5.0, None, 0.0),
    ],
)
def test_each_measurement_has_what_was_seen_in_its_own_time(begin_s, end_s, steal_percent, step_ms):
    found = surroundings_within(CALM_THEN_NOT, int(begin_s * 1e9), int(end_s * 1e9))

    assert found["steal_percent"] == (None if steal_percent is None else pytest.approx(steal_percent))
    assert found["clock_step_ms"] == step_ms
    assert "socket_backlog_bytes" not in found


def test_the_measurement_that_lost_most_counts():
    assert most_steal_percent({"a": {"steal_percent": 1.0}, "b": {"steal_percent": 3.0}}) == 3.0
    assert most_steal_percent({"a": {"steal_percent": None}}) is None


@pytest.mark.parametrize(
    ("level", "reasons"),
    [
        ({}, []),
        ({"steal_percent": 5.0, "schedule_error_ms": {"p99": 5.0}}, []),
        ({"steal_percent": None, "schedule_error_ms": None}, []),
        ({"steal_percent": 5.1}, ["CPU steal: 5.1 % is above 5 %"]),
        ({"schedule_error_ms": {"p99": 24.0}}, ["schedule error p99: 24.00 ms is above 5 ms"]),
    ],
)
def test_what_is_beyond_the_default_guards_disturbs(level, reasons):
    assert disturbances(level) == reasons


def test_a_calibration_has_the_surroundings_of_each_measurement():
    level = calibrate(seconds=0.2, say=lambda _text: None, levels=(0,))["qos0"]

    around = level["surroundings"]
    assert around.keys() == {"published", "published_recorded", "received", "schedule"}
    for each in around.values():
        assert each["readings"] >= 2
        assert 0 <= each["steal_percent"] <= level["steal_percent"] <= 100
        assert 0 < each["system_cpu_percent"] <= 100
        assert each["clock_step_ms"] >= 0
