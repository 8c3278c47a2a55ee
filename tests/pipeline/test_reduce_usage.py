import pyarrow.parquet as pq
import pytest
from pipeline_runs import MS, RunBuilder, S, write_rows

from brokerlab.pipeline.manifests import read_facts
from brokerlab.pipeline.reduce.usage import read_counters, read_samples, usage

pytestmark = pytest.mark.pipeline

MIB = 2**20


def sample(at_s, cpu_ms, *, process=10, rss_mib=50, node="broker/0", **more):
    return {
        "node": node,
        "process": process,
        "at_ns": round(at_s * S),
        "cpu_ns": cpu_ms * MS,
        "rss_bytes": rss_mib * MIB,
        **more,
    }


def usage_of(study, samples):
    run = RunBuilder().write(study)
    write_rows(run, "resources", "sampler", samples)
    rows = usage(read_samples(map(str, run.files("resources"))), read_facts(run).phases)
    return {(row["node"], row["process"], row["phase"]): row for row in rows}


def test_a_process_that_has_ended_takes_nothing_off_its_mean_memory(study):
    """Two samples of 50 and 70 MiB, and a third when the kernel had taken all of it back: 60, not 40."""
    row = usage_of(study, [sample(2, 1000, rss_mib=50), sample(3, 1200, rss_mib=70), sample(4, 1200, rss_mib=0)])[
        "broker/0", 10, "measure"
    ]

    assert (row["rss_mean_bytes"], row["rss_max_bytes"]) == (60 * MIB, 70 * MIB)


def test_growth_between_samples_at_the_edges(study):
    """0.5 s of CPU and 60 MiB on average in the two seconds of the measure phase."""
    row = usage_of(study, [sample(2, 1000, rss_mib=50), sample(3, 1200, rss_mib=60), sample(4, 1500, rss_mib=70)])[
        "broker/0", 10, "measure"
    ]

    assert row["seconds"] == 2
    assert row["cpu_ns"] == 500 * MS
    assert (row["rss_mean_bytes"], row["rss_max_bytes"]) == (60 * MIB, 70 * MIB)
    assert (row["read_bytes"], row["threads_max"], row["open_files_max"]) == (None, None, None)


def test_an_edge_between_two_samples_lies_on_the_line_between_them(study):
    """From 1.5 s to 2.5 s the CPU grows by 1 s, so half of that belongs to either phase."""
    rows = usage_of(study, [sample(1.0, 0), sample(1.5, 0), sample(2.5, 1000), sample(4, 1000)])

    assert rows["broker/0", 10, "warmup"]["cpu_ns"] == 500 * MS
    assert rows["broker/0", 10, "measure"]["cpu_ns"] == 500 * MS


def test_a_phase_without_a_sample_takes_memory_from_its_neighbours(study):
    rows = usage_of(study, [sample(0, 0, rss_mib=10), sample(5.5, 1100, rss_mib=30)])

    assert rows["broker/0", 10, "measure"]["rss_mean_bytes"] == 20 * MIB
    assert rows["broker/0", 10, "measure"]["cpu_ns"] == pytest.approx(400 * MS)


def test_a_process_is_not_in_phases_before_its_first_and_after_its_last_sample(study):
    rows = usage_of(study, [sample(2.5, 0), sample(3.5, 100)])

    assert {phase for _, _, phase in rows} == {"measure"}


def test_processes_and_nodes_are_apart_whatever_the_order_of_rows(study):
    samples = [sample(at, at * 10 * process, process=process) for process in (1, 2) for at in (4, 2)]
    rows = usage_of(study, [*samples, sample(2, 5, node="publishers/0"), sample(4, 7, node="publishers/0")])

    assert rows["broker/0", 1, "measure"]["cpu_ns"] == 20 * MS
    assert rows["broker/0", 2, "measure"]["cpu_ns"] == 40 * MS
    assert rows["publishers/0", 10, "measure"]["cpu_ns"] == 2 * MS


def test_bytes_read_and_written_grow_too(study):
    samples = [sample(2, 0, read_bytes=100, written_bytes=0), sample(4, 0, read_bytes=300, written_bytes=8)]
    row = usage_of(study, samples)["broker/0", 10, "measure"]

    assert (row["read_bytes"], row["written_bytes"]) == (200, 8)


def test_most_threads_and_open_files_of_a_phase_count(study):
    samples = [sample(at, 0, threads=threads, open_files=9) for at, threads in ((0, 99), (2, 3), (3, 7), (4, 5))]
    row = usage_of(study, samples)["broker/0", 10, "measure"]

    assert (row["threads_max"], row["open_files_max"]) == (7, 9)


def test_a_file_that_was_written_without_the_new_columns_is_read(study):
    run = RunBuilder().write(study)
    write_rows(run, "resources", "sampler", [sample(2, 0), sample(4, 0)])
    (path,) = run.files("resources")
    pq.write_table(pq.read_table(path).drop_columns(["threads", "open_files"]), path)

    assert read_samples([str(path)]).column("threads").null_count == 2


def test_no_samples_no_rows(study):
    assert usage_of(study, []) == {}


def test_a_counter_has_its_last_value_and_those_around_the_measure_phase(study):
    """Which lasts from 2 to 4 s."""
    run = RunBuilder().write(study)
    values = [("received", 2, 5.0), ("received", 5, 11.0), ("received", 3, 7.0), ("sent", 1, 1.0), ("late", 6, 2.0)]
    rows = [{"node": "broker/0", "name": name, "at_ns": at * S, "value": value} for name, at, value in values]
    write_rows(run, "counters", "sys", rows)
    told = read_counters(map(str, run.files("counters")), read_facts(run).phases)

    columns = ("name", "value", "measure_first", "measure_last", "told_before")
    assert [tuple(row[name] for name in columns) for row in told] == [
        ("sent", 1.0, 1.0, 1.0, 0),
        ("received", 11.0, 5.0, 7.0, 3),
        ("late", 2.0, None, None, 4),
    ]


def test_phases_without_a_gap_between_them_sum_to_the_whole(study):
    """F-19: what a process used is divided among the phases, wherever samples lie and phases end; nothing twice."""
    samples = [sample(at, cpu, read_bytes=7 * cpu, written_bytes=cpu) for at, cpu in ((0, 0), (1.3, 91), (4.7, 530))]
    run = RunBuilder(
        phases={"connect": (0.0, 0.5), "idle": (0.5, 2.0), "measure": (2.0, 4.0), "drain": (4.0, 4.7)}
    ).write(study)
    write_rows(run, "resources", "sampler", samples)
    rows = list(usage(read_samples(map(str, run.files("resources"))), read_facts(run).phases))

    assert [row["phase"] for row in rows] == ["connect", "idle", "measure", "drain"]
    assert sum(row["cpu_ns"] for row in rows) == pytest.approx(530 * MS)
    assert sum(row["read_bytes"] for row in rows) == pytest.approx(7 * 530)
    assert sum(row["written_bytes"] for row in rows) == pytest.approx(530)
