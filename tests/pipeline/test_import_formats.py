"""Formats of other tools, read from samples that can be counted on paper; no Spark."""

import hashlib
import json

import import_samples as samples
import pytest

from brokerlab.errors import UserError
from brokerlab.imports.base import Options, Source
from brokerlab.imports.docker_stats import size_bytes
from brokerlab.imports.registry import FORMATS, format_of
from brokerlab.imports.times import iso_ns, number_ns
from brokerlab.imports.writing import import_runs
from brokerlab.record.directory import StudyDirectory

pytestmark = pytest.mark.unit

MS, S = 1_000_000, 1_000_000_000
NOTHING_SAID = Options()


def read(tmp_path, form, options=NOTHING_SAID, **files):
    """Readings of the files, and the sources with their counts."""
    folder = samples.write(tmp_path / "in", **files)
    sources = [Source(path) for path in sorted(folder.iterdir())]
    return format_of(form).read(sources, options), sources


def column(reading, kind, name):
    return reading.raw[kind].column(name).to_pylist()


def latencies_ns(reading):
    times = zip(*(column(reading, "deliveries", name) for name in ("received_ns", "intended_ns")), strict=True)
    return [received_ns - intended_ns for received_ns, intended_ns in times]


def test_subscriber_log_knows_messages_by_their_id(tmp_path):
    """X-10, X-12, X-13: the twin has its first's number, and what was not received is not known."""
    (reading,), (source,) = read(tmp_path, "subscriber-log", sub__log=samples.SUBSCRIBER_LOG)

    assert list(zip(column(reading, "deliveries", "publisher"), column(reading, "deliveries", "seq"), strict=True)) == [
        (0, 0), (0, 0), (1, 0), (0, 1),
    ]  # fmt: skip
    assert column(reading, "deliveries", "received_ns")[0] - column(reading, "deliveries", "intended_ns")[0] == 132 * MS
    assert column(reading, "publications", "payload_bytes") == [11076, 11076, 518]
    assert column(reading, "publications", "sent_ns") == [None] * 3
    assert reading.unknown == {"sent", "acknowledged", "published", "expected", "dup"}
    assert (source.lines, source.malformed, source.examples[0]["line"]) == (5, 1, 5)


def test_what_is_known_to_be_published_is_listed_without_a_time(tmp_path):
    """X-11: three of each gateway, of which one and two never came."""
    (reading,), _ = read(tmp_path, "subscriber-log", Options(published=3), sub__log=samples.SUBSCRIBER_LOG)

    rows = reading.raw["publications"].to_pylist()
    assert [(row["publisher"], row["seq"]) for row in rows if row["intended_ns"] is None] == [(0, 2), (1, 1), (1, 2)]
    assert not reading.unknown & {"published", "expected"}


def test_a_pause_begins_another_repetition(tmp_path):
    """X-15: ten runs lie in one log; here the second begins after 0.4 s."""
    readings, _ = read(tmp_path, "subscriber-log", Options(split_s=0.45), sub__log=samples.SUBSCRIBER_LOG)

    assert [reading.raw["deliveries"].num_rows for reading in readings] == [2, 1, 1]


def test_border_folder_is_one_run_with_its_connections(tmp_path):
    (reading,), sources = read(tmp_path, "border", e2e_b0__txt=samples.BORDER_E2E, conn_b0__txt=samples.BORDER_CONN)

    latency = [
        r - i
        for r, i in zip(
            column(reading, "deliveries", "received_ns"), column(reading, "deliveries", "intended_ns"), strict=True
        )
    ]
    assert [ns // MS for ns in latency] == [5, 55, 7]
    assert column(reading, "sessions", "latency_ns") == [12 * MS]
    assert reading.workload["qos"] == 1
    assert [source.malformed for source in sources] == [0, 1]


@pytest.mark.parametrize(
    ("text", "options", "cpu_ns", "malformed"),
    [
        (samples.DOCKER_TABLE, Options(every_s=1), [0, S], 1),  # the whole core for the second up to the second sample
        (samples.DOCKER_TS, Options(), [0, S // 2], 0),  # a quarter of a core for two seconds
    ],
)  # fmt: skip
def test_docker_stats_become_cpu_time_and_bytes(tmp_path, text, options, cpu_ns, malformed):
    (reading,), (source,) = read(tmp_path, "docker-stats", options, stats__txt=text)

    assert column(reading, "resources", "cpu_ns") == cpu_ns
    assert column(reading, "resources", "rss_bytes") == [100 * 2**20, 200 * 2**20]
    assert column(reading, "resources", "written_bytes") == [4100, 8200]
    assert column(reading, "counters", "value") == [1500, 2_000_000, 3000, 4_000_000]
    assert source.malformed == malformed


def test_docker_json_is_read_and_times_are_asked_for(tmp_path):
    options = Options(every_s=1, nodes={"emqx_0": "broker/0"})
    (reading,), _ = read(tmp_path, "docker-stats", options, stats__json=samples.DOCKER_JSON)

    assert column(reading, "resources", "node") == ["broker/0"]
    with pytest.raises(UserError, match="say no time"):
        read(tmp_path, "docker-stats", stats__json=samples.DOCKER_JSON)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1B", 1),
        ("1.5kB", 1500),
        ("1KiB", 1024),
        ("2MB", 2_000_000),
        ("1.5GiB", 3 * 2**29),
        ("--", None),
        ("1 XB", None),
    ],
)
def test_dockers_units(text, size):
    assert size_bytes(text) == size


def test_collectl_keeps_every_column_and_needs_the_cores_for_cpu_time(tmp_path):
    """M-24: a quarter of four cores is one core."""
    (reading,), (source,) = read(tmp_path, "collectl", broker__tab=samples.COLLECTL)
    (bare,), _ = read(tmp_path, "collectl", broker__tab=samples.COLLECTL.replace("NumCPUs", "CPUs"))

    assert column(reading, "resources", "cpu_ns") == [0, S]
    assert column(reading, "resources", "rss_bytes") == [512000 * 1024, 612000 * 1024]
    assert len(column(reading, "counters", "name")) == 2 * 7
    assert reading.start_ns == iso_ns("2020-06-01 12:00:00")
    assert column(bare, "resources", "cpu_ns") == [None, None]
    assert source.malformed == 1


def test_blaster_samples_have_a_probe(tmp_path):
    """S-12, S-13: 90 % of a core for a second; round trips of 1.5 and 2.5 ms; the header is no malformed line."""
    (reading,), (source,) = read(tmp_path, "blaster", Options(every_s=1), stats__csv=samples.BLASTER)

    assert column(reading, "resources", "cpu_ns") == [0, 9 * S // 10]
    assert column(reading, "resources", "rss_bytes") == [None, None]
    sent, heard = column(reading, "probe_deliveries", "intended_ns"), column(reading, "probe_deliveries", "received_ns")
    assert [(r - i) / MS for r, i in zip(heard, sent, strict=True)] == [1.5, 2.5]
    assert source.malformed == 1


def test_emqtt_bench_logs_of_both_sides_are_one_run(tmp_path):
    (reading,), sources = read(
        tmp_path, "emqtt-bench", pub__log=samples.EMQTT_BENCH_PUB, sub__log=samples.EMQTT_BENCH_SUB
    )

    told = {(row["name"], row["at_ns"] // S): row["value"] for row in reading.raw["counters"].to_pylist()}
    assert (told["pub", 61], told["recv", 61], told["publish_latency avg ms", 1]) == (6100, 6090, 3)
    assert reading.told == {"published": ("pub",), "delivered": ("recv",)}
    assert "counts a publication of QoS 0 twice" in reading.notes[0]
    assert [source.malformed for source in sources] == [1, 0]


def test_emqtt_bench_of_before(tmp_path):
    (reading,), _ = read(tmp_path, "emqtt-bench", sub__log="recv(28006): total=2102563, rate=99725(msg/sec)\n")

    assert reading.raw["counters"].to_pylist() == [
        {"node": "sub", "name": "recv", "at_ns": 28_006 * MS, "value": 2102563.0}
    ]


def test_mqttloader_record_counts_sendings_and_times_receipts(tmp_path):
    (reading,), (source,) = read(tmp_path, "mqttloader", record__csv=samples.MQTTLOADER_RECORD)

    latency = [
        r - i
        for r, i in zip(
            column(reading, "deliveries", "received_ns"), column(reading, "deliveries", "intended_ns"), strict=True
        )
    ]
    assert latency == [3_165_000, 2_000_000]
    assert column(reading, "counters", "value") == [1, 2, 3]
    assert {"identity", "expected"} <= reading.unknown
    assert "published" not in reading.unknown
    assert source.malformed == 1


def test_mqttloader_summary_is_totals_second_by_second(tmp_path):
    (reading,), (source,) = read(tmp_path, "mqttloader", summary__txt=samples.MQTTLOADER_SUMMARY)

    told = {(row["name"], row["at_ns"] // S): row["value"] for row in reading.raw["counters"].to_pylist()}
    assert (told["published", 1], told["published", 2], told["delivered", 2]) == (11955, 28382, 27632)
    assert told["Maximum latency ms", 2] == 81.838
    assert source.malformed == 0


def test_mqtt_stresser_has_totals_without_time(tmp_path):
    (reading,), (source,) = read(tmp_path, "mqtt-stresser", out__txt=samples.MQTT_STRESSER)

    told = {row["name"]: row["value"] for row in reading.raw["counters"].to_pylist()}
    assert (told["Published Messages"], told["Received Messages"], told["Errors"]) == (1500, 1490, 1)
    assert told["Publishing Throughput: Median"] == 42093
    assert (reading.start_ns, reading.end_ns, source.malformed) == (0, 0, 0)


def test_emqttb_pages_have_the_times_above_them(tmp_path):
    (reading,), (source,) = read(tmp_path, "emqttb", page__txt=samples.EMQTTB)

    assert reading.told["delivered"] == ('emqttb_received_messages{group="sub/sub"}',)
    assert (reading.end_ns - reading.start_ns) == 10 * S
    assert not any(name.startswith("erlang") for name in column(reading, "counters", "name"))
    assert source.malformed == 1


def test_any_csv_by_its_mapping(tmp_path):
    mapping = samples.write(tmp_path, map__yaml=samples.CSV_MAPPING) / "map.yaml"
    (reading,), (source,) = read(tmp_path, "csv", Options(mapping=mapping), log__csv=samples.CSV)

    assert [row["publisher"] for row in reading.raw["publications"].to_pylist()] == [0, 0]
    assert [ns // MS for ns in latencies_ns(reading)] == [50, 30, 20]
    assert (source.malformed, source.examples[0]["why"]) == (1, "sent 'yesterday' is no time")


@pytest.mark.parametrize(
    ("unit", "received", "resolution_ns"),
    [
        ("s", ("0.150", "0.23", "0.120"), MS),  # the most exact one tells how they are written
        ("ms", ("150", "230", "120"), MS),
        ("us", ("150.1234", "230.1", "120"), 1),
        ("iso", ("1970-01-01 00:00:00.150", "1970-01-01 00:00:00.230", "1970-01-01 00:00:00.120"), None),
    ],
)
def test_times_of_a_csv_are_as_exact_as_they_are_written(tmp_path, unit, received, resolution_ns):
    text = samples.CSV
    for old, new in zip(("0.150", "0.230", "0.120"), received, strict=True):
        text = text.replace(old, new)
    written = samples.CSV_MAPPING.replace("t_in, unit: s", f"t_in, unit: {unit}")
    mapping = samples.write(tmp_path, map__yaml=written) / "map.yaml"
    (reading,), _ = read(tmp_path, "csv", Options(mapping=mapping), log__csv=text)

    assert set(column(reading, "deliveries", "resolution_ns")) == {resolution_ns}


@pytest.mark.parametrize(
    ("mapping", "message", "hint"),
    [
        (samples.CSV_MAPPING.replace("receiver", "reciever"), "no column 'reciever'", "receiver"),
        (samples.CSV_MAPPING.replace("publisher:", "publishers:"), "no key 'publishers'", "publisher"),
        (samples.CSV_MAPPING.replace("unit: s", "unit: m"), "unit 'm'", ""),
        (samples.CSV_MAPPING.replace("qos: 0", "qos: 3"), "qos 3", ""),
        ("columns: {subscriber: a}", "lacks", ""),
        ("- 1", "has the key columns", ""),
    ],
)
def test_a_wrong_mapping_is_refused_with_the_nearest_name(tmp_path, mapping, message, hint):
    path = samples.write(tmp_path, map__yaml=mapping) / "map.yaml"

    with pytest.raises(UserError, match=message) as refused:
        read(tmp_path, "csv", Options(mapping=path), log__csv=samples.CSV)
    assert hint in refused.value.hint


@pytest.mark.parametrize("form", [name for name in FORMATS if name != "csv"])
def test_a_foreign_file_is_refused_by_name_and_leaves_nothing(tmp_path, form):
    path = samples.write(tmp_path / "in", letter__txt="Dear reader,\nthis is no log.\n") / "letter.txt"
    results = StudyDirectory(tmp_path / "out")

    with pytest.raises(UserError, match=f"letter.txt: not of the format {form}: line 1"):
        import_runs(format_of(form), path, results, levels={}, options=Options(every_s=1))
    assert not results.path.exists()


def test_unknown_formats_are_told_the_nearest():
    with pytest.raises(UserError, match="no format 'emqttbench'") as refused:
        format_of("emqttbench")
    assert "did you mean emqtt-bench?" in refused.value.hint


def test_the_run_directory_says_where_it_comes_from(tmp_path):
    path = samples.write(tmp_path / "in", sub__log=samples.SUBSCRIBER_LOG) / "sub.log"
    results = StudyDirectory(tmp_path / "out")
    levels = {"broker": "hivemq", "qos": "1"}
    for _ in range(2):
        (written,) = import_runs(format_of("subscriber-log"), path, results, levels=levels, options=Options(qos=1))

    manifest = json.loads((results.run("broker-hivemq.qos-1/2").manifest_path).read_text())
    assert (written.run_id, written.deliveries, written.malformed) == ("broker-hivemq.qos-1/2", 4, 1)
    assert manifest["source"]["files"][0]["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert manifest["verdict"]["reasons"][-1] == "1 of 5 lines are malformed"


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("2024-09-10T12:00:00Z", 1725969600 * S),
        ("2024-09-10 14:00:00.25+02:00", 1725969600 * S + S // 4),
        ("2021-05-03-12:00:00", 1620043200 * S),
        ("12:00:00", None),
        ("2024-13-10 12:00:00", None),
    ],
)
def test_dates_to_nanoseconds(text, ns):
    assert iso_ns(text) == ns


def test_fractions_are_exact_where_a_float_is_not():
    assert number_ns("1725969600000.123457", "ms") == 1725969600000123457
    assert number_ns("0.1", "s") == 100 * MS
    assert number_ns("1e3", "s") is None
