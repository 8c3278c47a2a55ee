"""`brokerlab calibrate` measures the meter and keeps the result."""

import json

import pytest

from brokerlab.cli.calibrate import calibrate_once
from brokerlab.lab.calibration import calibration_section, store_calibration

pytestmark = pytest.mark.unit


def test_calibrate_measures_every_qos_and_keeps_the_result(brokerlab, tmp_path):
    done = brokerlab(
        "calibrate", "--json", "--seconds", "0.1", "--payload", "256 B", env={"XDG_CACHE_HOME": str(tmp_path)}
    )

    assert done.returncode == 0, done.stderr
    measured = json.loads(done.stdout)
    for qos in ("qos0", "qos1", "qos2"):
        level = measured[qos]
        for name in ("published", "published_recorded", "received"):
            assert level[f"{name}_per_s"] > 0
            assert level[f"{name}_per_s_per_core"] * level["cpu_us_per_message"][name] == pytest.approx(1e6)
        error = level["schedule_error_ms"]
        assert 0 <= error["p50"] <= error["p99"] <= error["max"]
        assert 0 <= level["receive_resolution_ms"]["p50"] <= level["receive_resolution_ms"]["max"]
    assert measured["payload_bytes"] == 256
    (kept,) = tmp_path.glob("brokerlab/*/calibration.json")
    assert json.loads(kept.read_text()) == measured


@pytest.mark.parametrize("payload", ["8 B", "2 MiB", "64"])
def test_calibrate_refuses_a_payload_that_it_cannot_send(brokerlab, payload):
    done = brokerlab("calibrate", "--payload", payload)

    assert done.returncode == 64
    assert f"--payload {payload}: " in done.stderr


def test_calibrate_refuses_a_time_that_measures_nothing(brokerlab):
    done = brokerlab("calibrate", "--seconds", "0")

    assert done.returncode == 64
    assert "--seconds" in done.stderr


def test_a_machine_that_was_calibrated_is_not_calibrated_again(tmp_path, monkeypatch, capsys):
    """That one which was not is: tests/e2e/test_saturated_generator.py."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    store_calibration({"format": 1})

    calibrate_once(seconds=0.1)

    assert calibration_section()["value"] == {"format": 1}
    assert capsys.readouterr().out == ""


def test_a_calibration_that_cannot_be_kept_stops_no_run(tmp_path, monkeypatch, capsys):
    (tmp_path / "brokerlab").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    calibrate_once(seconds=0.1)

    said = capsys.readouterr().out
    assert "note: it could not be calibrated: the calibration cannot be kept in" in said
    assert "against a broker that does nothing" not in said
