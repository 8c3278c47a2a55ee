import pytest

from brokerlab.lab.calibration import calibration_path, calibration_section, store_calibration

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_a_machine_without_calibration_says_how_to_get_one():
    assert calibration_section() == {
        "value": None,
        "reason": "this machine was never calibrated: brokerlab calibrate",
    }


def test_what_was_kept_is_found_again(cache):
    path = store_calibration({"format": 1, "qos0": {"published_per_s": 1.0}})

    assert path.is_relative_to(cache / "brokerlab")
    assert calibration_section() == {"value": {"format": 1, "qos0": {"published_per_s": 1.0}}, "reason": None}


def test_a_damaged_calibration_is_null_with_its_reason():
    store_calibration({"format": 1})
    calibration_path().write_text("{", encoding="utf-8")

    section = calibration_section()

    assert section["value"] is None
    assert "cannot be read" in section["reason"]
