import json
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from brokerlab.errors import UserError
from brokerlab.record.directory import RunDirectory, StudyDirectory, open_results
from brokerlab.record.manifest import Manifest, read_manifest
from brokerlab.record.parts import PartWriter
from brokerlab.record.schemas import COUNTERS

pytestmark = pytest.mark.unit


def counters(*values):
    rows = [{"node": "broker/0", "name": "n", "at_ns": number, "value": value} for number, value in enumerate(values)]
    return pa.RecordBatch.from_pylist(rows, schema=COUNTERS)


def test_a_manifest_grows_and_every_stage_of_it_is_whole(tmp_path):
    path = tmp_path / "manifest.json"
    manifest = Manifest(path)

    manifest.add("run", {"id": "a/1"})
    assert read_manifest(path) == {"format": 1, "run": {"id": "a/1"}}
    manifest.add("verdict", {"value": "valid"})
    assert list(read_manifest(path)) == ["format", "run", "verdict"]


def test_a_section_is_written_once(tmp_path):
    manifest = Manifest(tmp_path / "manifest.json")
    manifest.add("run", 1)

    with pytest.raises(ValueError, match="already written"):
        manifest.add("run", 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "cannot be read"), ("[]", "no format version"), ('{"format": 99}', "newer than this brokerlab")],
)
def test_a_manifest_that_cannot_be_ours_is_refused_with_its_name(tmp_path, text, message):
    path = tmp_path / "manifest.json"
    path.write_text(text)

    with pytest.raises(UserError, match=message) as refused:
        read_manifest(path)
    assert str(path) in refused.value.message


def test_rows_come_back_in_order_from_files_of_bounded_size(tmp_path):
    writer = PartWriter(tmp_path, "broker-0", COUNTERS, rows_per_file=3)
    for first in range(0, 8, 2):
        writer.write(counters(first, first + 1))
    writer.close()

    files = sorted(tmp_path.glob("*.parquet"))
    assert [pq.read_metadata(file).num_rows for file in files] == [4, 4]
    assert [v for file in files for v in pq.read_table(file)["value"].to_pylist()] == list(range(8))


def test_only_complete_files_have_their_final_name(tmp_path):
    run = RunDirectory(tmp_path)
    writer = PartWriter(run.raw("counters"), "broker-0", COUNTERS)
    writer.write(counters(1.0))

    assert run.files("counters") == []
    writer.close()
    assert [file.name for file in run.files("counters")] == ["broker-0-00000.parquet"]


def test_a_writer_without_rows_leaves_no_file(tmp_path):
    PartWriter(tmp_path / "counters", "broker-0", COUNTERS).close()

    assert list((tmp_path / "counters").iterdir()) == []


def test_a_batch_is_made_by_the_thread_that_writes_it_and_a_rehearsed_one_is_kept_nowhere(tmp_path):
    made_in = []

    def made(*values):
        made_in.append(threading.current_thread().name)
        return counters(*values)

    writer = PartWriter(tmp_path, "broker-0", COUNTERS)
    writer.rehearse(lambda: made(7.0))
    writer.write(lambda: made(1.0, 2.0))
    writer.close()

    (file,) = tmp_path.iterdir()
    assert pq.read_table(file)["value"].to_pylist() == [1.0, 2.0]
    assert made_in == ["write-broker-0"] * 2


def test_a_failed_write_is_not_forgotten(tmp_path):
    writer = PartWriter(tmp_path, "broker-0", COUNTERS)
    writer.write(pa.RecordBatch.from_pydict({"other": [1]}))

    with pytest.raises(RuntimeError, match="broker-0"):
        writer.close()


def test_a_folder_that_cannot_be_written_is_said_so(tmp_path):
    writer = PartWriter(tmp_path / "gone", "broker-0", COUNTERS)
    (tmp_path / "gone").rmdir()
    writer.write(pa.RecordBatch.from_pylist([], schema=COUNTERS))

    with pytest.raises(UserError, match="broker-0 cannot be written"):
        writer.close()


def test_a_cut_off_run_is_set_aside_under_a_name_of_its_own_and_a_finished_one_stays(tmp_path):
    results = StudyDirectory(tmp_path)
    for run_id, content in (("a/1", {"format": 1}), ("a/2", {"format": 1, "verdict": {"value": "valid"}})):
        results.run(run_id).path.mkdir(parents=True)
        results.run(run_id).manifest_path.write_text(json.dumps(content))

    assert results.set_aside_cut_off("a/2") is None
    assert results.set_aside_cut_off("a/3") is None
    assert results.set_aside_cut_off("a/1").name == "1.cut-1"
    assert [run.path.name for run in results.runs()] == ["1.cut-1", "2"]


@pytest.mark.parametrize("exists", [True, False])
def test_a_folder_without_results_is_refused(tmp_path, exists):
    folder = tmp_path / "results"
    if exists:
        folder.mkdir()

    with pytest.raises(UserError, match="results"):
        open_results(folder)
