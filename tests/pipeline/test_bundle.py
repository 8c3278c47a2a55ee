"""A bundle gives the same tables on another machine; what is known is not computed again."""

import json
import shutil
import tarfile

import pytest
from capture_files import CONNACK, Talk, connect, pcap, publish, write
from pipeline_runs import RunBuilder, arrival, new_study, publication

from brokerlab.errors import UserError
from brokerlab.pipeline import known
from brokerlab.pipeline.jobs import analyze
from brokerlab.pipeline.known import KnownPartials
from brokerlab.pipeline.manifests import read_runs
from brokerlab.pipeline.tables import TABLE_NAMES, read_table
from brokerlab.record.bundle import ABOUT, OF_CAPTURES, pack
from brokerlab.record.directory import StudyDirectory

pytestmark = pytest.mark.pipeline


def add_run(study, repetition, delivered=1):
    sent = [publication(seq, 2000 + seq) for seq in range(3)]
    rows = [arrival(each, 1 + each["seq"]) for each in sent[:delivered]]
    files = {"publications": {"p": sent}, "deliveries": {"s": rows}}
    return RunBuilder(repetition=repetition, order=repetition).write(study, **files)


@pytest.fixture(scope="module")
def analyzed(tmp_path_factory, spark):
    """A study to which a run was added after its first analysis, and what both analyses said."""
    study = new_study(tmp_path_factory.mktemp("bundled") / "study")
    study.study.write_text("study: tiny\ncredentials: env:BUNDLE_SECRET\n")
    said = []
    for repetition, delivered in ((1, 1), (2, 3)):
        add_run(study, repetition, delivered)
        analyze(spark, study, notify=said.append)
    return study, said


@pytest.fixture(scope="module")
def results(analyzed):
    return analyzed[0]


def unpacked(archive, folder):
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return StudyDirectory(folder / "study")


def tables_of(study):
    return {name: read_table(study, name).to_pylist() for name in TABLE_NAMES}


def test_a_new_run_is_added_and_finished_ones_are_not_read_again(analyzed):
    study, said = analyzed

    assert [line for line in said if line.startswith("reading")] == [
        "reading the raw files of 1 runs",
        "reading the raw files of 1 runs; 1 are known",
    ]
    assert read_table(study, "delivery").column("delivered").to_pylist() == [1, 3]


@pytest.mark.parametrize("histograms", [False, True])
def test_tables_of_a_bundle_are_the_same_row_for_row(results, spark, tmp_path, histograms):
    """Replay and disclosure: unpacked elsewhere, without the tables that came along."""
    packed = pack(results, tmp_path / "b.tar.gz", histograms=histograms)
    elsewhere = unpacked(packed.path, tmp_path / "elsewhere")
    shutil.rmtree(elsewhere.tables)
    said = []
    analyze(spark, elsewhere, notify=said.append)

    assert tables_of(elsewhere) == tables_of(results)
    how = "reading the raw files of 0 runs; 2 are known" if histograms else "reading the raw files of 2 runs"
    assert said[0] == how
    assert bool(list(elsewhere.path.rglob("deliveries"))) is not histograms


@pytest.fixture(scope="module")
def captured(tmp_path_factory, spark):
    """A run whose packets were captured: a publication that came and left."""
    study = new_study(tmp_path_factory.mktemp("captured") / "study")
    talk = Talk().at(100).open().says(connect()).hears(CONNACK).at(2000).says(publish("t", b"x" * 20))
    talk.at(2003).hears(publish("t", b"x" * 20))
    about = {"tap": "broker", "file": "traffic/a.pcap", "place": "lo", "ports": [1883], "dropped": 0}
    run = RunBuilder(more={"captures": [about]}).write(study)
    write(run.path / "traffic" / "a.pcap", pcap(talk.frames))
    analyze(spark, study)
    return study


def test_tables_of_packets_stay_as_they_were_packed_and_are_named(captured, spark, tmp_path):
    """All others are made again; those of single packets cannot be, and must not come out empty."""
    packed = pack(captured, tmp_path / "b.tar.gz", histograms=True)
    elsewhere = unpacked(packed.path, tmp_path / "elsewhere")
    for name in set(TABLE_NAMES) - set(OF_CAPTURES):
        shutil.rmtree(elsewhere.table(name))
    said = []
    summary = analyze(spark, elsewhere, notify=said.append)

    assert all(read_table(captured, name).num_rows for name in OF_CAPTURES)
    assert tables_of(elsewhere) == tables_of(captured)
    assert summary.as_packed == tuple(sorted(OF_CAPTURES))
    assert [line for line in said if "packed" in line] == [f"table {name}, as it was packed" for name in OF_CAPTURES]
    assert not list(elsewhere.path.rglob("*.pcap"))


def test_tables_that_nothing_can_make_again_are_missed(captured, spark, tmp_path):
    elsewhere = unpacked(pack(captured, tmp_path / "b.tar.gz", histograms=True).path, tmp_path / "elsewhere")
    shutil.rmtree(elsewhere.table("legs"))

    with pytest.raises(UserError, match="the tables that came instead are gone: legs"):
        analyze(spark, elsewhere)


def test_a_bundle_has_the_same_bytes_again_and_the_sums_of_its_files(results, tmp_path):
    first, second = (pack(results, tmp_path / name).path for name in ("a.tar.gz", "b.tar.gz"))

    assert first.read_bytes() == second.read_bytes()
    about = json.loads((unpacked(first, tmp_path / "x").path / ABOUT).read_text())
    assert (about["holds"], about["left_out"]) == ("raw data", [])
    assert "runs/broker-amqtt.qos-0/1/manifest.json" in about["sha256"]


def test_secrets_are_left_out_and_told(study, tmp_path, monkeypatch):
    monkeypatch.setenv("BUNDLE_SECRET", "opensesame")
    study.study.write_text("study: tiny\ncredentials: env:BUNDLE_SECRET\n")
    run = add_run(study, 1)
    run.broker.mkdir()
    texts = {
        "broker.conf": "listener 1883",
        "log.txt": "login with opensesame",
        "broker.key": "x",
        "clients.pem": "-----BEGIN PRIVATE KEY-----",
    }
    for name, text in texts.items():
        (run.broker / name).write_text(text)
    packed = pack(study, tmp_path / "b.tar.gz")
    with tarfile.open(packed.path) as tar:
        names = {name.rpartition("/")[2] for name in tar.getnames()}

    assert "broker.conf" in names
    assert not names & {"log.txt", "broker.key", "clients.pem"}
    assert len(packed.left_out) == 3
    assert any("holds the secret BUNDLE_SECRET" in line for line in packed.left_out)


def test_nothing_to_pack_is_the_users_error(study, tmp_path):
    with pytest.raises(UserError, match="no runs to pack"):
        pack(study, tmp_path / "b.tar.gz")
    RunBuilder().write(study)
    with pytest.raises(UserError, match="histograms are not made yet"):
        pack(study, tmp_path / "b.tar.gz", histograms=True)


def test_a_run_without_histograms_is_not_packed_without_its_raw_files(study, kept, tmp_path):
    add_run(study, 3)

    with pytest.raises(UserError, match=r"of 1 runs no histograms are made yet, such as broker-amqtt\.qos-0/3"):
        pack(study, tmp_path / "b.tar.gz", histograms=True)


# ---- what is known already, without Spark ------------------------------------------------------------------


@pytest.fixture
def kept(study, tmp_path):
    """Two runs whose partials are known."""
    runs = [add_run(study, repetition) for repetition in (1, 2)]
    (tmp_path / "written").mkdir()
    KnownPartials(study).add(tmp_path / "written", read_runs(study)[0])
    return runs


def missing(study):
    """Repetitions that an analysis would read."""
    return [run.run_id.split("/")[1] for run in KnownPartials(study).missing(read_runs(study)[0])]


def test_only_a_run_that_changed_is_read_again(study, kept):
    assert missing(study) == []
    (path,) = kept[0].files("deliveries")
    path.write_bytes(path.read_bytes()[:-10])
    add_run(study, 3)

    assert missing(study) == ["1", "3"]


def test_a_run_without_its_raw_files_is_known_by_its_manifest(study, kept):
    for kind in ("publications", "deliveries"):
        shutil.rmtree(kept[0].raw(kind))

    assert missing(study) == []
    kept[0].manifest_path.write_text(kept[0].manifest_path.read_text() + "\n")
    assert missing(study) == ["1"]


def test_another_version_of_the_pipeline_computes_all_anew_and_says_so(study, kept, monkeypatch):
    monkeypatch.setattr(known, "PIPELINE_VERSION", 99)

    assert missing(study) == ["1", "2"]
    assert "this is 99: all runs anew" in KnownPartials(study).note


def test_histograms_of_another_version_without_raw_files_are_refused(study, kept, monkeypatch):
    (study.path / ABOUT).write_text('{"holds": "histograms"}')
    monkeypatch.setattr(known, "PIPELINE_VERSION", 99)

    with pytest.raises(UserError, match="raw files were not packed"):
        KnownPartials(study)


def test_an_index_that_cannot_be_read_costs_the_time_and_nothing_else(study, kept):
    (study.path / known.FOLDER / "index.json").write_text("{")

    assert missing(study) == ["1", "2"]
