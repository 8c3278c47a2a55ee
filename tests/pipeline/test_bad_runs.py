"""Runs that are not as they should be: told with the file's name, and the others come out; no Spark."""

import pytest
from pipeline_runs import RunBuilder, arrival, publication

from brokerlab.pipeline.manifests import read_facts, read_runs
from brokerlab.pipeline.reduce.work import pieces_of, reduce_work

pytestmark = pytest.mark.pipeline


def rows_of(run, family):
    batches = [batch for piece in pieces_of(read_facts(run)) for batch in reduce_work(piece)]
    return [row[family] for batch in batches for row in batch.to_pylist() if row[family] is not None]


@pytest.mark.parametrize(
    ("after_ms", "told"),
    [((1, 1, 1, 1), []), ((1, 30, 1, 1), ["deliveries/s-*.parquet: the clock goes back (1 ×)"])],
)
def test_a_clock_that_goes_back_is_counted_with_the_files_name(study, after_ms, told):
    sent = [publication(seq, 2000 + 10 * seq) for seq in range(4)]
    rows = [arrival(each, ms) for each, ms in zip(sent, after_ms, strict=True)]
    run = RunBuilder().write(study, publications={"p": sent}, deliveries={"s": rows})

    assert [note["reason"] for note in rows_of(run, "note")] == told
    assert [flow["delivered"] for flow in rows_of(run, "flow")] == [4]


def test_clocks_that_agree_less_well_than_the_latency_is_long_reject_the_run(study):
    """Load on a cluster: a median of 2 ms, and bounds of 1.5 and 1 ms between two machines."""
    sent = [publication(seq, 2000 + 10 * seq) for seq in range(3)]
    rows = [arrival(each, 2) for each in sent]
    workers = {"publishers/0": {"bound_ns": 1_500_000}, "subscribers/0": {"bound_ns": 1_000_000}}
    files = {"publications": {"p": sent}, "deliveries": {"s": rows}}
    bad = RunBuilder(more={"workers": workers}).write(study, **files)
    workers["publishers/0"]["bound_ns"] = 500_000
    good = RunBuilder(repetition=2, more={"workers": workers}).write(study, **files)

    (problem,) = rows_of(bad, "problem")
    assert problem["reason"].startswith("clocks agree to 2.5 ms only, and half of the latencies are below 2")
    assert rows_of(good, "problem") == []


def test_two_runs_with_one_id_are_told_and_the_one_in_its_place_counts(study):
    for folder in ("0", "1", "1.cut-1"):
        RunBuilder(repetition=1, folder=folder).write(study)
    newer = RunBuilder(repetition=2).write(study)
    newer.manifest_path.write_text(newer.manifest_path.read_text().replace('"format": 1', '"format": 2'))
    RunBuilder(repetition=3, phases={"measure": (4.0, 2.0)}).write(study)
    facts, problems = read_runs(study)

    assert sorted(run.run_id.split("/")[1] for run in facts) == ["1", "1.cut-1"]
    told = "\n".join(problems)
    assert "0/manifest.json: it is run broker-amqtt.qos-0/1 once more" in told
    assert "2/manifest.json: format 2 is newer" in told
    assert "3/manifest.json: the manifest is damaged: ValueError('the clock goes back: phase measure" in told
