"""Energy from RAPL counters, or nothing (F-16)."""

import pytest

from brokerlab.lab.energy import joules, packages, reason_unmeasurable
from brokerlab.lab.surroundings import Reading, summarize

pytestmark = pytest.mark.unit


def _zone(folder, name, *, energy_uj):
    zone = folder / name
    zone.mkdir(parents=True)
    (zone / "name").write_text(f"package-{name[-1]}\n")
    (zone / "max_energy_range_uj").write_text("1000\n")
    (zone / "energy_uj").write_text(f"{energy_uj}\n")


def test_packages_are_counted_and_their_parts_are_not_counted_again(tmp_path):
    for name, energy_uj in (("intel-rapl:0", 7), ("intel-rapl:1", 8), ("intel-rapl:0:0", 3)):
        _zone(tmp_path, name, energy_uj=energy_uj)
    found = packages(tmp_path)

    assert [(one.name, one.read_uj(), one.range_uj) for one in found] == [
        ("package-0", 7, 1000),
        ("package-1", 8, 1000),
    ]
    assert reason_unmeasurable(tmp_path) is None


def test_a_machine_without_counters_says_that_energy_is_not_measurable(tmp_path):
    assert packages(tmp_path) == ()
    assert reason_unmeasurable(tmp_path) == "not measurable here: the machine shows no RAPL counters"


def test_a_counter_that_cannot_be_read_is_no_zero(tmp_path):
    _zone(tmp_path, "intel-rapl:0", energy_uj=7)
    (tmp_path / "intel-rapl:0" / "energy_uj").unlink()

    assert packages(tmp_path) == ()
    assert reason_unmeasurable(tmp_path) == "not measurable here: only root may read the RAPL counters"


def test_energy_of_the_measure_phase_with_a_counter_that_starts_anew():
    """Within the phase the first package goes 100, 900, 200 of 1000 and the second stands: 1,100 micro-joules."""
    energies = {0: (0, 5), 10: (100, 5), 20: (900, 5), 30: (200, 5), 40: (500, 5)}
    readings = [Reading(at, 0, 0, 0, 10 * at, 0, energy_uj=uj) for at, uj in energies.items()]
    around = summarize(readings, measure_ns=10, end_ns=30, ranges_uj=[1000, 1000])

    assert around.energy_j == pytest.approx(1100e-6)
    assert summarize(readings, measure_ns=10, end_ns=30).energy_j is None
    assert joules([(1,)], [1000]) is None
