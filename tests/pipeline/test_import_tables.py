"""From another tool's files to tables; and deliveries in any order and any file come to what ours come to."""

import json
import random
from dataclasses import dataclass

import import_samples as samples
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pipeline_runs import DEFAULTS, RunBuilder, arrival, new_study, publication

from brokerlab.imports.base import Options
from brokerlab.imports.registry import format_of
from brokerlab.imports.writing import import_runs
from brokerlab.pipeline.jobs import analyze
from brokerlab.pipeline.manifests import read_facts
from brokerlab.pipeline.reduce.foreign import ORDER, SortedParts, foreign_files, read_rows
from brokerlab.pipeline.reduce.work import pieces_of, reduce_work
from brokerlab.pipeline.schemas import arrow_schema
from brokerlab.pipeline.schemas.families import SORTABLE
from brokerlab.pipeline.tables import TABLE_NAMES, read_table
from brokerlab.record.schemas import RAW_SCHEMAS

pytestmark = pytest.mark.pipeline

NOTHING_SAID = Options()
FOREIGN = {"source": {"format": "test", "layout": "foreign"}}


@dataclass(frozen=True)
class Import:
    form: str
    files: dict[str, str]
    options: Options = NOTHING_SAID
    levels: tuple[tuple[str, str], ...] = ()


IMPORTS = {
    "log": Import("subscriber-log", {"sub__log": samples.SUBSCRIBER_LOG}, Options(published=3, qos=1), (("qos", "1"),)),
    "unknown": Import("subscriber-log", {"sub__log": samples.SUBSCRIBER_LOG}),
    "border": Import("border", {"e2e_b0__txt": samples.BORDER_E2E, "conn_b0__txt": samples.BORDER_CONN}),
    "docker": Import("docker-stats", {"s__txt": samples.DOCKER_TS}, Options(nodes={"emqx_0": "broker/0"})),
    "collectl": Import("collectl", {"c__tab": samples.COLLECTL}),
    "blaster": Import("blaster", {"b__csv": samples.BLASTER}, Options(every_s=1)),
    "bench": Import("emqtt-bench", {"pub__log": samples.EMQTT_BENCH_PUB, "sub__log": samples.EMQTT_BENCH_SUB}),
    "loader": Import("mqttloader", {"r__csv": samples.MQTTLOADER_RECORD}),
    "summary": Import("mqttloader", {"s__txt": samples.MQTTLOADER_SUMMARY}),
    "stresser": Import("mqtt-stresser", {"s__txt": samples.MQTT_STRESSER}),
    "emqttb": Import("emqttb", {"e__txt": samples.EMQTTB}),
}


@pytest.fixture(scope="module")
def results(tmp_path_factory, spark):
    """All samples, each a cell of its own, through to the tables."""
    folder = tmp_path_factory.mktemp("imports")
    study = new_study(folder / "results")
    for name, each in IMPORTS.items():
        path = samples.write(folder / name, **each.files)
        form = format_of(each.form)
        files = path if form.is_folder_a_run else sorted(path.iterdir())[0]
        import_runs(form, files, study, levels={"from": name, **dict(each.levels)}, options=each.options)
    write_layouts(study)
    analyze(spark, study)
    return study


def write_layouts(study):
    """The same deliveries as our workers write them, and shuffled over three files; and a damaged file."""
    chance = random.Random(7)
    rows = [
        (chance.randrange(4), chance.randrange(3), chance.randrange(12), t, chance.random() < 0.1) for t in range(300)
    ]
    written(study, in_time(rows), files=1, is_foreign=False, cell="ours")
    written(study, chance.sample(rows, len(rows)), files=3, is_foreign=True, cell="theirs")
    bad = written(study, rows[:5], files=1, is_foreign=True, cell="from-damaged")
    (path,) = bad.files("deliveries")
    path.write_bytes(path.read_bytes()[:-10])


def row(results, table, name, **keys):
    rows = [
        r
        for r in read_table(results, table).to_pylist()
        if r["cell"].split(".")[0] == f"from-{name}" and all(r[key] == value for key, value in keys.items())
    ]
    assert len(rows) == 1, rows
    return rows[0]


def test_every_import_is_a_valid_run_that_says_what_is_not_known(results):
    runs = read_table(results, "runs").to_pylist()

    imported = [run for run in runs if any("imported:" in reason for reason in run["reasons"])]
    assert len(imported) == len(IMPORTS)
    assert {run["verdict"] for run in imported} == {"valid"}


def test_ledger_of_a_subscriber_log_whose_publications_are_known(results):
    """X-11, X-12: three of each of two gateways; a twice, b and c once."""
    ledger = row(results, "delivery", "log")

    assert (ledger["published"], ledger["expected"], ledger["delivered"], ledger["lost"]) == (6, 6, 3, 3)
    assert (ledger["duplicated"], ledger["duplicated_flagged"], ledger["reordered"]) == (1, None, 0)
    assert (ledger["acknowledged"], ledger["acknowledged_lost"], ledger["verdict"]) == (None, None, "unknown")


def test_what_the_log_does_not_tell_is_null_and_not_zero(results):
    ledger, rates = row(results, "delivery", "unknown"), row(results, "throughput", "unknown", window="delivery")

    assert (ledger["delivered"], ledger["duplicated"]) == (3, 1)
    assert [ledger[name] for name in ("published", "expected", "lost", "failure_percent")] == [None] * 4
    assert (rates["delivered"], rates["published"], rates["published_per_s"]) == (3, None, None)


def test_latency_of_a_subscriber_log(results):
    """X-10, X-14: 132, 1000 and 200 ms; each size of payload is a group."""
    latency = row(results, "latency", "log", kind="intended", group="all")
    small = row(results, "latency", "log", kind="intended", group="payload 518 B")

    assert (latency["n"], latency["min_ms"], latency["max_ms"], small["max_ms"]) == (3, 132.0, 1000.0, 200.0)
    assert latency["mean_ms"] == pytest.approx(444)
    assert not [r for r in read_table(results, "latency").to_pylist() if "log" in r["cell"] and r["kind"] == "sent"]


def test_border_has_delays_and_connections(results):
    """B-20."""
    latency = row(results, "latency", "border", kind="intended")

    assert (latency["n"], latency["mean_ms"]) == (3, pytest.approx((5 + 55 + 7) / 3))
    assert row(results, "sessions", "border", event="connack")["latency_max_ms"] == 12.0


def test_samples_of_containers_and_machines_become_resources(results):
    """B-22, M-24, S-13."""
    docker = row(results, "resources", "docker")
    machine = row(results, "resources", "collectl")
    blaster = row(results, "resources", "blaster")

    assert (docker["node"], docker["cpu_percent"], docker["rss_max_mib"]) == ("broker/0", pytest.approx(25), 200.0)
    assert (machine["node"], machine["cpu_percent"]) == ("machine", pytest.approx(100))
    assert (blaster["node"], blaster["rss_max_mib"]) == ("broker/0", None)
    for source in ("docker", "collectl", "blaster"):  # none of them says anything of messages
        rates = row(results, "throughput", source, window="delivery")
        assert (rates["published"], rates["delivered"], rates["delivered_per_s"]) == (None, None, None)
    assert row(results, "latency", "blaster", group="probe", kind="intended")["mean_ms"] == pytest.approx(2)


def test_totals_of_benches_become_throughput(results):
    bench = row(results, "throughput", "bench", window="send")
    ledger = row(results, "delivery", "bench")

    assert (bench["published"], bench["delivered"], bench["seconds"]) == (6100, 6090, 61.0)
    assert (ledger["published"], ledger["delivered"], ledger["lost"], ledger["duplicated"]) == (6100, 6090, None, None)
    assert row(results, "throughput", "emqttb", window="delivery")["delivered_per_s"] == pytest.approx(99.9)
    assert row(results, "throughput", "summary", window="send")["published_per_s"] == pytest.approx(14191)
    assert row(results, "throughput", "stresser", window="send")["published_per_s"] is None


def test_a_loaders_record_has_sendings_and_latency(results):
    ledger, latency = row(results, "delivery", "loader"), row(results, "latency", "loader", kind="intended")

    assert (ledger["published"], ledger["delivered"], ledger["lost"], ledger["duplicated"]) == (3, 2, None, None)
    assert (latency["n"], latency["mean_ms"]) == (2, pytest.approx((3.165 + 2) / 2))


# ---- any order, any file -----------------------------------------------------------------------------------

arrivals = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 2), st.integers(0, 11), st.integers(0, 400), st.booleans()), max_size=60
)


def written(study, rows, *, files, is_foreign, cell="cell"):
    """A run of three publishers with ten messages each; `rows` are (subscriber, publisher, seq, after ms, dup)."""
    published = {
        (publisher, seq): publication(seq, 2000 + 20 * seq + publisher, publisher=publisher, acked=seq % 3 > 0)
        for publisher in range(3)
        for seq in range(10)
    }
    unknown = publication(11, 2300, publisher=2)
    deliveries = [
        arrival(published.get((publisher, seq), unknown), after, subscriber=subscriber, dup=dup)
        for subscriber, publisher, seq, after, dup in rows
    ]
    builder = RunBuilder(
        cell=cell,
        qos=1,
        publishers={number: f"t/{number}" for number in range(3)},
        subscribers={0: ("t/#", 1), 1: ("t/1", 1), 2: ("t/+", 0)},  # 3 is unknown
        more=FOREIGN if is_foreign else {},
    )
    run = study.run(f"{cell}/1")
    (run.path / "publications").mkdir(parents=True)
    (run.path / "deliveries").mkdir()
    run.manifest_path.write_text(json.dumps({"format": 1, **builder.sections()}))
    places = [place % files if is_foreign else 0 for place in range(len(deliveries))]
    for number in range(files):
        own = [delivery for place, delivery in zip(places, deliveries, strict=True) if place == number]
        write_file(run, "deliveries", f"s{number}" if files > 1 else "s", own)
    write_file(run, "publications", "p", list(published.values()))
    return run


def write_file(run, kind, worker, rows):
    """As write_rows, but at once: a property is tried many times."""
    table = pa.Table.from_pylist([{**DEFAULTS[kind], **row} for row in rows], schema=RAW_SCHEMAS[kind])
    pq.write_table(table, run.raw(kind) / f"{worker}-00000.parquet")


def in_time(rows):
    """The order that a sort by time of arrival leaves: as a subscriber would have written it."""
    return sorted(rows, key=lambda r: (2000 + 20 * r[2] + r[1] + r[3] if r[2] < 10 else 2300 + r[3], r[0], r[1], r[2]))


def partials(batches):
    """Partial rows by family, without the order in which they came."""
    found = []
    for batch in batches:
        found += [{name: value for name, value in row.items() if value is not None} for row in batch.to_pylist()]
    return sorted(map(repr, found))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=arrivals, files=st.integers(1, 4), seed=st.integers(0, 99))
def test_foreign_layouts_come_to_the_same_partials(tmp_path_factory, rows, files, seed):
    """The general path, with a sort in Spark's place, against the path that reads a worker's files in order."""
    folder = tmp_path_factory.mktemp("layouts")
    rows = list({(r[0], r[1], r[2], r[3]): r for r in rows}.values())
    shuffled = random.Random(seed).sample(rows, len(rows))
    ours = read_facts(written(new_study(folder / "a"), in_time(rows), files=1, is_foreign=False))
    theirs = read_facts(written(new_study(folder / "b"), shuffled, files=files, is_foreign=True))
    work, _ = foreign_files([theirs])
    batches = [batch for file in work for batch in read_rows(file)]
    table = pa.Table.from_batches(batches, schema=arrow_schema(SORTABLE))
    parts = SortedParts()
    in_order = table.sort_by([(name, "ascending") for name in ORDER])
    general = [batch for start in range(0, in_order.num_rows, 7) for batch in parts.add(in_order.slice(start, 7))]
    general += parts.finish()

    expected = [batch for piece in pieces_of(ours) if piece.deliveries for batch in reduce_work(piece)]
    assert partials(general) == (partials(expected) if rows else [])


def test_spark_sorts_foreign_layouts_to_the_same_tables(results):
    """On Spark itself: once as our workers write it, once shuffled over three files, row for row."""
    for name in TABLE_NAMES:
        rows = read_table(results, name).to_pylist()
        ours, theirs = ([as_of_none(row) for row in rows if row.get("cell") == cell] for cell in ("ours", "theirs"))
        assert theirs == ours, name
    assert read_table(results, "jitter").num_rows > 0


def as_of_none(row):
    """Without the name of its run."""
    return {name: value for name, value in row.items() if name not in ("run_id", "cell", "levels", "order")}


def test_a_damaged_foreign_file_is_named_and_the_others_come_out(results):
    bad = row(results, "runs", "damaged")

    assert bad["verdict"] == "invalid"
    assert bad["reasons"][0].startswith("deliveries/s-00000.parquet cannot be read")
    assert "from-damaged" not in set(read_table(results, "delivery").column("cell").to_pylist())
