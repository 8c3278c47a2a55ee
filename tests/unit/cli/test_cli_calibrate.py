"""`brokerlab calibrate` measures the meter and keeps the result."""

import json

import pytest

from brokerlab.cli.calibrate import calibrate_for, expected_s, measure, require_possible
from brokerlab.cli.plan import meter_notes
from brokerlab.cli.studies import prepare
from brokerlab.errors import RunError, UserError
from brokerlab.lab.calibration import (
    ELSEWHERE,
    calibration_path,
    calibration_section,
    store_calibration,
    todays_versions,
)
from brokerlab.lab.description import describe_run
from brokerlab.lab.setups import SetUp, setup_of
from brokerlab.record.manifest import Manifest

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
        assert 0 <= level["steal_percent"] <= 100
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


def test_calibrate_leaves_out_what_it_cannot_measure_of_a_study(brokerlab, study, tmp_path):
    large = ("--set", "scenario.variables={payload: [17 MiB, 64 B]}")
    env = {"XDG_CACHE_HOME": str(tmp_path)}
    done = brokerlab("calibrate", "--study", str(study), "--json", "--seconds", "0.1", *large, env=env)
    none = brokerlab("calibrate", "--study", str(study), *large, "--only", "payload=17 MiB", env=env)

    assert done.returncode == 0, done.stderr
    assert "17 MiB over TCP, MQTT 3.1.1 is left out: payloads over 16 MiB are not calibrated" in done.stderr
    assert json.loads(done.stdout)["payload_bytes"] == 64
    assert "others" not in json.loads(done.stdout)
    assert (none.returncode, none.stdout) == (64, "")
    assert "nothing of this study can be calibrated" in none.stderr


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (("--payload", "17 MiB"), "--payload 17 MiB: "),
        (("--payload", "64"), "--payload 64: "),
        (("--protocol", "4"), "--protocol 4: there is no such version"),
        (("--transport", "quic"), "--transport"),
        (("--publishers", "0"), "--publishers"),
        (("--study", "frist-light"), "first-light"),
        (("--payload", "16 MiB", "--subscribers", "1000"), "over 1,000 connections"),
        (("--study", "first-light", "--payload", "64 B"), "--payload beside --study: "),
        (("--study", "x", "--transport", "tls", "--protocol", "5.0"), "--transport and --protocol beside --study: "),
        (
            ("--study", "x", "--publishers", "1", "--subscribers", "1"),
            "--publishers and --subscribers beside --study: ",
        ),
        (("--set", "scenario.workload.qos=1"), "--set without --study: "),
        (("--only", "broker=x", "--payload", "64 B"), "--only without --study: "),
    ],
)
def test_calibrate_refuses_a_setup_that_it_cannot_make(brokerlab, said, told):
    done = brokerlab("calibrate", *said)

    assert (done.returncode, done.stdout) == (64, "")
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_calibrate_refuses_more_connections_than_the_machine_has(monkeypatch):
    monkeypatch.setattr("brokerlab.cli.calibrate.connections_here", lambda: 300)

    require_possible(SetUp(publishers=300, subscribers=300))
    with pytest.raises(UserError, match="300 connections of a worker, not 301"):
        require_possible(SetUp(subscribers=301))


def test_calibrate_refuses_a_time_that_measures_nothing(brokerlab):
    done = brokerlab("calibrate", "--seconds", "0")

    assert done.returncode == 64
    assert "--seconds" in done.stderr


def measured(setup, levels, **_more):
    """A calibration that nobody measured."""
    rates = {"published_recorded_per_s": 1.0, "received_per_s": 1.0}
    return {"format": 1, **setup.facts, "versions": dict(todays_versions())} | {f"qos{qos}": rates for qos in levels}


def test_a_setup_that_fails_takes_no_others_with_it_and_is_not_tried_again(study, tmp_path, monkeypatch, capsys):
    """Another QoS of it is."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    settings = ["scenario.variables={transport: [tls, tcp], qos: [0, 1]}"]
    prepared = prepare(str(study), settings=settings, levels=[])
    cells = prepared.plan.cells
    asked = []

    def fail(**order):
        asked.append((order["setup"].transport, *order["levels"]))
        if asked[-1] == ("tls", 0):
            raise RunError("nothing came")
        return measured(**order)

    monkeypatch.setattr("brokerlab.lab.calibrate.calibrate", fail)
    for _ in range(2):
        calibrate_for(prepared, seconds=0.1)

    failed = "the meter could not be calibrated for 64 B over TLS, MQTT 3.1.1 at QoS 0: nothing came; "
    assert sorted(asked) == [("tcp", 0), ("tcp", 1), ("tls", 0), ("tls", 1)]
    assert capsys.readouterr().out.count(f"note: {failed}") == 2
    assert {each.workload.transport for each in cells if section(each)["value"]} == {"tcp", "tls"}
    (reason,) = {section(each)["reason"] for each in cells} - {None}
    assert reason.startswith(failed)


def section(cell):
    return calibration_section(setup_of(cell), int(cell.workload.qos))


def test_calibrate_names_what_failed_and_shows_the_rest(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    setups = {SetUp(64): (0,), SetUp(128): (0, 1)}

    def fail(**order):
        if order["setup"] == SetUp(64) or order["levels"] == (1,):
            raise RunError("nothing came")
        return measured(**order)

    monkeypatch.setattr("brokerlab.lab.calibrate.calibrate", fail)
    done = measure(setups, 0.1)

    assert done.measured == {SetUp(128): measured(SetUp(128), (0,))}
    assert done.failed == [
        "64 B over TCP, MQTT 3.1.1 at QoS 0: nothing came",
        "128 B over TCP, MQTT 3.1.1 at QoS 1: nothing came",
    ]


CALM = {"steal_percent": 0.0, "schedule_error_ms": {"p99": 0.1}}
STOLEN = CALM | {"steal_percent": 30.0}
LATE = CALM | {"schedule_error_ms": {"p99": 9.0}}
FAILED = RunError("nothing came")


@pytest.mark.parametrize(
    ("seen", "kept", "because"),
    [
        ([CALM], CALM, None),
        ([STOLEN, CALM], CALM, ["CPU steal: 30.0 % is above 5 %"]),
        ([LATE, CALM], CALM, ["schedule error p99: 9.00 ms is above 5 ms"]),
        ([STOLEN, LATE], LATE, ["CPU steal: 30.0 % is above 5 %"]),
        ([STOLEN, FAILED], STOLEN, None),
    ],
)
def test_a_disturbed_calibration_before_a_study_is_made_once_more(
    study, tmp_path, monkeypatch, capsys, seen, kept, because
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    prepared = prepare(str(study), settings=[], levels=["qos=1"])
    left = list(seen)

    def measure_next(**order):
        found = left.pop(0)
        if isinstance(found, RunError):
            raise found
        made = measured(**order)
        return made | {"qos1": made["qos1"] | found}

    monkeypatch.setattr("brokerlab.lab.calibrate.calibrate", measure_next)
    calibrate_for(prepared)

    level = section(prepared.plan.cells[0])["value"]["qos1"]
    assert left == []
    assert {name: level[name] for name in CALM} == kept
    assert level.get("again_because") == because
    assert ("note: its ceilings may be higher than was measured: " in capsys.readouterr().out) is (kept is not CALM)


def test_calibrate_itself_measures_once_and_tells_what_disturbed(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    asked = []

    def disturbed(**order):
        asked.append(order["levels"])
        made = measured(**order)
        return made | {"qos0": made["qos0"] | STOLEN}

    monkeypatch.setattr("brokerlab.lab.calibrate.calibrate", disturbed)

    assert measure({SetUp(): (0,)}, 0.1).disturbed == [
        "64 B over TCP, MQTT 3.1.1 at QoS 0: CPU steal: 30.0 % is above 5 %"
    ]
    assert asked == [(0,)]


def test_calibrate_says_how_much_was_stolen(brokerlab, study, tmp_path):
    done = brokerlab(
        "calibrate", "--study", str(study), "--only", "qos=1", "--seconds", "0.1", env={"XDG_CACHE_HOME": str(tmp_path)}
    )

    assert done.returncode == 0, done.stderr
    (told,) = (line for line in done.stdout.splitlines() if line.startswith("CPU steal, at most"))
    (kept,) = tmp_path.glob("brokerlab/*/calibration.json")
    steal_percent = json.loads(kept.read_text())["qos1"]["steal_percent"]
    assert told.split()[-2:] == ["%", f"{steal_percent:.3g}"]


@pytest.mark.parametrize(
    ("setup", "least_s", "most_s"),
    [
        (SetUp(), 4, 10),
        (SetUp(publishers=10_000, subscribers=10_000), 15, 40),
        (SetUp(1 << 20, publishers=1_000, subscribers=1_000), 8, 20),
    ],
)
def test_what_is_announced_grows_with_connections_and_their_payloads(setup, least_s, most_s):
    """Roughly what it took on two cores."""
    assert least_s < expected_s(setup) < most_s


def test_a_machine_that_was_calibrated_is_not_calibrated_again(study, tmp_path, monkeypatch, capsys):
    """That one which was not is: tests/e2e/test_saturated_generator.py."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    prepared = prepare(str(study), settings=[], levels=[])
    cells = prepared.plan.cells
    content = measured(SetUp(cells[0].workload.payload_bytes), levels=(0, 1, 2))
    store_calibration(content)

    calibrate_for(prepared, seconds=0.1)

    assert calibration_section()["value"] == content
    assert capsys.readouterr().out == ""


def test_a_calibration_that_cannot_be_kept_stops_no_run(study, tmp_path, monkeypatch, capsys):
    (tmp_path / "brokerlab").write_text("no folder")
    prepared = prepare(str(study), settings=[], levels=[])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    calibrate_for(prepared, seconds=0.1)

    said = capsys.readouterr().out
    assert "note: it could not be calibrated: the calibration cannot be kept in" in said
    assert "against a broker that does nothing" not in said


def test_what_no_ceiling_is_measured_of_is_told(brokerlab, study):
    """The plan says it too."""
    asked = ("role=loop", "protocol=5.0", "mqtt5.topic_alias=true")
    loops = [word for each in asked for word in ("--set", f"scenario.workload.{each}")]
    loops += ["--set", "system.brokers.embedded.driver=mosquitto"]
    done = brokerlab("calibrate", "--study", str(study), *loops)
    planned = brokerlab("plan", str(study), *loops)

    why = "there is no ceiling of receiving: clients that hear their own messages are not calibrated with topic aliases"
    assert (done.returncode, done.stdout) == (64, "")
    assert f"calibrate: {why}" in done.stderr
    assert "nothing of this study can be calibrated" in done.stderr
    assert f"- {why}" in planned.stdout
    assert "done before the first run" not in planned.stdout


def test_a_load_on_spark_is_not_calibrated_here(brokerlab, study, tmp_path, monkeypatch, capsys):
    """Ceilings that this machine has are none of the executors'."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    prepared = prepare(str(study), settings=["deploy.load_on=spark"], levels=[])
    calibrate_for(prepared, seconds=0.1)
    assert not calibration_path().exists()
    assert "note: the meter is not calibrated: the load runs on Spark's executors" in capsys.readouterr().out
    assert meter_notes(prepared) == [f"the meter is not calibrated: {ELSEWHERE}"]

    store_calibration(measured(SetUp(), levels=(0, 1, 2)))
    asked = brokerlab("calibrate", "--study", str(study), "--set", "deploy.load_on=spark")

    (there, *_), (here, *_) = sections(prepared, tmp_path / "spark"), sections(with_load_here(study), tmp_path / "here")
    assert there == {"value": None, "reason": ELSEWHERE}
    assert here["value"] is not None
    assert (asked.returncode, asked.stdout) == (64, "")
    assert ELSEWHERE in asked.stderr


def with_load_here(study):
    return prepare(str(study), settings=[], levels=[])


def sections(prepared, folder):
    """What the manifests of these runs say of the meter before anything starts."""
    for number, run in enumerate(prepared.plan.runs):
        manifest = Manifest(folder / f"{number}.json")
        folder.mkdir(exist_ok=True)
        describe_run(manifest, run, prepared.study)
        yield manifest.sections["calibration"]
