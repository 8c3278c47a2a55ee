import json
from pathlib import Path

import pytest
from cli_program import Program

from brokerlab.brokers.amqtt import Amqtt
from brokerlab.brokers.base import Missing
from brokerlab.cli.plan import machine_notes, meter_notes
from brokerlab.cli.studies import prepare
from brokerlab.errors import UserError
from brokerlab.lab.calibration import store_calibration, store_failure, todays_versions
from brokerlab.lab.setups import USUAL

pytestmark = pytest.mark.unit


def test_the_same_study_gives_the_same_plan_byte_for_byte(brokerlab: Program, study: Path) -> None:
    first = brokerlab("plan", str(study), "--json", env={"PYTHONHASHSEED": "1"})
    second = brokerlab("plan", str(study), "--json", env={"PYTHONHASHSEED": "2"})

    assert first.returncode == 0
    assert first.stdout == second.stdout
    assert [run["id"] for run in json.loads(first.stdout)["runs"]]


def test_another_seed_gives_another_plan(brokerlab: Program, study: Path) -> None:
    first = json.loads(brokerlab("plan", str(study), "--json").stdout)
    second = json.loads(brokerlab("plan", str(study), "--json", "--set", "deploy.seed=2").stdout)

    assert [first["seed"], second["seed"]] == [1, 2]
    assert {run["seed"] for run in first["runs"]}.isdisjoint(run["seed"] for run in second["runs"])


def test_plan_for_people(brokerlab: Program, study: Path) -> None:
    done = brokerlab("plan", str(study))

    assert done.returncode == 0
    assert "tiny: Does it run?" in done.stdout
    assert "2 cells" in done.stdout
    assert "2 runs" in done.stdout
    assert "broker-embedded.qos-1/1" in done.stdout
    assert "\x1b" not in done.stdout
    assert not set("─│┃━┏") & set(done.stdout)


def test_levels_are_told_with_their_units(brokerlab: Program, study: Path) -> None:
    levels = ("scenario.variables.link_rate=[none, 1 Mbit/s]", "scenario.variables.rtt=[5 ms]")
    topology = "scenario.topology={shape: chain, sites: 2}"
    done = brokerlab("plan", str(study), *(word for each in (*levels, topology) for word in ("--set", each)))

    assert done.returncode == 0, done.stderr
    assert "1 Mbit/s" in done.stdout
    assert "5 ms" in done.stdout
    assert "1000000" not in done.stdout


def test_plan_says_what_is_done_to_the_system(brokerlab: Program, study: Path) -> None:
    text = study.read_text(encoding="utf-8")
    faults = "scenario:\n  faults: [{do: stop, at: 200 ms, for: 100 ms}, {do: storm, delivered: 10}]\n"
    study.write_text(text.replace("scenario:\n", faults, 1), encoding="utf-8")

    told = brokerlab("plan", str(study)).stdout

    assert "fault at 0.2 s: stop of node 0, for 0.1 s" in told
    assert "fault after 10 deliveries: storm of all clients" in told


def test_only_leaves_cells_out(brokerlab: Program, study: Path) -> None:
    done = brokerlab("plan", str(study), "--only", "qos=1", "--json")

    assert [run["id"] for run in json.loads(done.stdout)["runs"]] == ["broker-embedded.qos-1/1"]


def test_a_long_order_is_abridged(brokerlab: Program, study: Path) -> None:
    done = brokerlab("plan", str(study), "--set", "deploy.repetitions=50")

    assert "100 runs" in done.stdout
    assert "and 88 more" in done.stdout


def test_all_problems_of_a_study_come_at_once(brokerlab: Program, study: Path) -> None:
    text = study.read_text(encoding="utf-8").replace("payload: 64 B", "paylod: 64 B").replace("0.5 s", "0.5 lightyears")
    study.write_text(text, encoding="utf-8")
    done = brokerlab("plan", str(study))

    assert done.returncode == 64
    assert 'tiny.yaml:7: scenario.workload.paylod: unknown key; did you mean "payload"?' in done.stderr
    assert "lightyears" in done.stderr


def test_a_broker_that_is_not_here_is_named_with_its_hint(monkeypatch: pytest.MonkeyPatch, study: Path) -> None:
    monkeypatch.setattr(Amqtt, "find", _not_here)

    with pytest.raises(UserError, match=r"embedded.*not here.*\(get it\)"):
        prepare(str(study), settings=[], levels=[])


def test_an_optional_broker_that_is_not_here_is_left_out_with_a_note(
    monkeypatch: pytest.MonkeyPatch, study: Path
) -> None:
    text = study.read_text(encoding="utf-8")
    brokers = "{embedded: {driver: amqtt, optional: true}, other: {driver: scripted}}"
    text = text.replace("{embedded: {driver: amqtt}}", brokers).replace("[embedded]", "[embedded, other]")
    study.write_text(text, encoding="utf-8")
    monkeypatch.setattr(Amqtt, "find", _not_here)
    plan = prepare(str(study), settings=[], levels=[]).plan

    assert {cell.broker.name for cell in plan.cells} == {"other"}
    assert machine_notes(plan)[0] == "embedded is left out: not here (get it)"


def _not_here(_self: Amqtt) -> Missing:
    return Missing("not here", hint="get it")


def test_more_connections_than_the_machine_allows_are_refused_with_the_numbers(brokerlab: Program, study: Path) -> None:
    done = brokerlab("plan", str(study), "--set", "scenario.workload.clients.idle=1000000")

    assert done.returncode == 64
    assert "needs 1,000,002 connections: the limit of open files allows" in done.stderr
    assert "set scenario.workload.clients.addresses to" in done.stderr


def test_source_addresses_that_the_machine_does_not_have_are_refused_all_at_once(
    brokerlab: Program, study: Path
) -> None:
    addresses = "scenario.workload.clients.addresses=[127.0.0.2, 198.51.100.1, 203.0.113.1]"
    done = brokerlab("plan", str(study), "--set", addresses)

    assert done.returncode == 64
    assert "scenario.workload.clients.addresses: this machine has no 198.51.100.1 (" in done.stderr
    assert " and 203.0.113.1 (" in done.stderr
    assert "127.0.0.2" not in done.stderr


def test_password_that_is_not_at_hand_is_found_before_anything_starts(brokerlab: Program, study: Path) -> None:
    credentials = "scenario.workload.credentials={user: u, password: env:BROKERLAB_NOT_SET}"
    done = brokerlab("plan", str(study), "--set", credentials)

    assert done.returncode == 64
    assert "scenario.workload.credentials: the environment has no BROKERLAB_NOT_SET" in done.stderr
    assert brokerlab("plan", str(study), "--set", credentials, env={"BROKERLAB_NOT_SET": "x"}).returncode == 0


@pytest.mark.parametrize(("limits", "is_shared"), [("", True), ("cores: [0]", False), ("cores: [0, 1]", True)])
def test_few_cores_are_noted_unless_the_broker_has_its_own(
    monkeypatch: pytest.MonkeyPatch, study: Path, limits: str, is_shared: bool
) -> None:
    monkeypatch.setattr("brokerlab.cli.plan.usable_cores", lambda: 2)
    settings = [f"system.limits={{{limits}}}"] if limits else []

    notes = machine_notes(prepare(str(study), settings=settings, levels=[]).plan)

    assert any("broker and load share 2 cores" in note for note in notes) is is_shared


def test_a_machine_that_was_never_calibrated_is_noted(
    monkeypatch: pytest.MonkeyPatch, study: Path, tmp_path: Path
) -> None:
    prepared = prepare(str(study), settings=[], levels=[])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (before,) = meter_notes(prepared)
    store_failure(USUAL, int(prepared.plan.cells[0].workload.qos), "nothing came")
    failed, _ = meter_notes(prepared)  # the other QoS are still to be measured
    rates = {"published_recorded_per_s": 1.0, "received_per_s": 1.0}
    store_calibration({"format": 1, "versions": dict(todays_versions())} | {f"qos{qos}": rates for qos in (0, 1, 2)})

    assert "not calibrated for all of this load: done before the first run (1 set-up, " in before
    assert "could not be calibrated for 64 B over TCP" in failed
    assert meter_notes(prepared) == []


def test_a_host_that_cannot_be_is_bad_input(brokerlab: Program, study: Path) -> None:
    remote = "system.brokers.embedded={driver: remote, options: {address: 'mqtt..example.org:1883'}}"
    done = brokerlab("plan", str(study), "--set", remote)

    assert (done.returncode, done.stdout) == (64, "")
    assert done.stderr.startswith("brokerlab: broker embedded: 'mqtt..example.org:1883' is no address: no host is")
    assert "Traceback" not in done.stderr


def test_a_file_that_is_not_the_one_of_the_study_is_bad_input(brokerlab: Program, study: Path) -> None:
    (study.parent / "day.txt").write_text("one\ntwo\n", encoding="utf-8")
    other = "0" * 64
    done = brokerlab("plan", str(study), "--set", f"scenario.workload.payload={{file: day.txt, sha256: '{other}'}}")

    assert (done.returncode, done.stdout) == (64, "")
    first, *hints = done.stderr.splitlines()
    assert "scenario.workload.payload: " in first
    assert "day.txt has changed: its SHA-256 is c3f9c8c2" in first
    assert f"and the study has {other}" in first
    assert len(hints) == 1


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("drop: seven", "drop: \"seven\": 'seven' is not a list of arrival numbers"),
        ("hold: {3: 2}", "hold: 3 cannot wait for 2"),
        ("malformed_kind: qso", 'malformed_kind: "qso": unknown malformed packet; did you mean "qos"?'),
        ("drop: [7]", None),
        ("delay_ms: {3: 20.5}", None),
    ],
)
def test_values_of_a_driver_s_options_are_read_with_the_study(study: Path, option: str, said: str | None) -> None:
    text = study.read_text(encoding="utf-8")
    scripted = f"{{embedded: {{driver: scripted, options: {{{option}}}}}}}"
    study.write_text(text.replace("{embedded: {driver: amqtt}}", scripted), encoding="utf-8")

    if said is None:
        assert prepare(str(study), settings=[], levels=[]).plan.cells
    else:
        with pytest.raises(UserError) as caught:
            prepare(str(study), settings=[], levels=[])
        assert f"system.brokers.embedded.options.{said}" in caught.value.message
        assert caught.value.message.startswith(f"{study}:")
