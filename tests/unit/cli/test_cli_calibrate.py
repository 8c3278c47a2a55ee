"""`brokerlab calibrate` measures the meter and keeps the result."""

import json

import pytest

from brokerlab.cli.calibrate import calibrate_for
from brokerlab.cli.studies import prepare
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
    assert (measured["set_up"], measured["payload_bytes"]) == ("256 B over TCP, MQTT 3.1.1", 256)
    (kept,) = tmp_path.glob("brokerlab/*/calibration.json")
    assert json.loads(kept.read_text()) == measured


def test_calibrate_measures_every_setup_of_a_study(brokerlab, study, tmp_path):
    """Several connections, over TLS and over TCP, each at the QoS of the study alone."""
    done = brokerlab(
        "calibrate", "--study", str(study), "--json", "--seconds", "0.1",
        *("--set", "scenario.variables={transport: [tls, tcp]}", "--set", "scenario.workload.qos=1"),
        *("--set", "scenario.workload.publishers=3", "--set", "scenario.workload.subscribers=20"),
        env={"XDG_CACHE_HOME": str(tmp_path)},
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    first = json.loads(done.stdout)
    both = {each["transport"]: each for each in (first, *first["others"])}
    assert both.keys() == {"tcp", "tls"}
    for each in both.values():
        assert (each["publishers"], each["subscribers"], each["protocol"]) == (10, 100, "3.1.1")
        assert [name for name in each if name.startswith("qos")] == ["qos1"]
        assert each["qos1"]["received_per_s"] > 0
    assert "calibrate: 1 of 2, " in done.stderr
    (kept,) = tmp_path.glob("brokerlab/*/calibration.json")
    assert len(json.loads(kept.read_text())["others"]) == 1


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (("--payload", "8 B"), "--payload 8 B: "),
        (("--payload", "17 MiB"), "--payload 17 MiB: "),
        (("--payload", "64"), "--payload 64: "),
        (("--protocol", "4"), "--protocol 4: there is no such version"),
        (("--transport", "quic"), "--transport"),
        (("--publishers", "0"), "--publishers"),
        (("--study", "frist-light"), "first-light"),
    ],
)
def test_calibrate_refuses_a_setup_that_it_cannot_make(brokerlab, said, told):
    done = brokerlab("calibrate", *said)

    assert (done.returncode, done.stdout) == (64, "")
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_calibrate_refuses_a_time_that_measures_nothing(brokerlab):
    done = brokerlab("calibrate", "--seconds", "0")

    assert done.returncode == 64
    assert "--seconds" in done.stderr


def test_a_machine_that_was_calibrated_is_not_calibrated_again(study, tmp_path, monkeypatch, capsys):
    """That one which was not is: tests/e2e/test_saturated_generator.py."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cells = prepare(str(study), settings=[], levels=[]).plan.cells
    content = {"format": 1, "payload_bytes": cells[0].workload.payload_bytes} | {f"qos{qos}": {} for qos in (0, 1, 2)}
    store_calibration(content)

    calibrate_for(cells, seconds=0.1)

    assert calibration_section()["value"] == content
    assert capsys.readouterr().out == ""


def test_a_calibration_that_cannot_be_kept_stops_no_run(study, tmp_path, monkeypatch, capsys):
    (tmp_path / "brokerlab").write_text("no folder")
    cells = prepare(str(study), settings=[], levels=[]).plan.cells
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    calibrate_for(cells, seconds=0.1)

    said = capsys.readouterr().out
    assert "note: it could not be calibrated: the calibration cannot be kept in" in said
    assert "against a broker that does nothing" not in said
