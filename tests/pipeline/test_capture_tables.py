"""Captures in run directories to the tables traffic, legs and captures; every number can be worked out (M-26, B-21)."""

import pytest
from capture_files import CONNACK, Talk, connect, pcap, pcapng, puback, publish, write
from pipeline_runs import RunBuilder, new_study
from pyspark.testing import assertDataFrameEqual

from brokerlab.errors import UserError
from brokerlab.imports.pcap import import_captures
from brokerlab.pipeline.capture.mqtt import TYPES
from brokerlab.pipeline.capture.reading import count_packets, match_messages, read_captures, read_packets
from brokerlab.pipeline.capture.source import PcapSource, files_of
from brokerlab.pipeline.capture.taps import taps_of_runs
from brokerlab.pipeline.jobs import analyze
from brokerlab.pipeline.manifests import manifests_table, read_runs
from brokerlab.pipeline.schemas.captured import TAPS
from brokerlab.pipeline.schemas.manifests import MANIFESTS
from brokerlab.pipeline.sources import small_frame
from brokerlab.pipeline.tables import read_table
from brokerlab.pipeline.transforms.captures import captures_table
from brokerlab.pipeline.transforms.legs import legs_table
from brokerlab.pipeline.transforms.traffic import traffic_table
from brokerlab.record.directory import StudyDirectory

pytestmark = pytest.mark.pipeline

HEADERS = 14 + 20 + 20  # Ethernet, IPv4 and TCP
PUBLISH_BYTES = 2 + 2 + 1 + 2 + 20  # header, topic "t", packet identifier, payload


THEIRS = "broker-theirs/1"


def payload(number):
    return bytes([number]) * 20


def ten_messages():
    """Published 10 ms apart from 2 s on, the start of the measure phase; the last does not arrive, the second twice.

    Odd ones leave 3 ms after they came, even ones 5 ms. One is sent again by TCP, another by MQTT.
    """
    talker = Talk(client=("10.0.0.1", 1001)).at(100).open().says(connect()).hears(CONNACK)
    hearer = Talk(client=("10.0.0.1", 1002)).at(150).open().says(connect()).hears(CONNACK)
    for number in range(10):
        came = 2000 + 10 * number
        talker.at(came).says(publish("t", payload(number), qos=1, number=number + 1))
        talker.at(came + 1).hears(puback(number + 1))
        if number < 9:
            hearer.at(came + (3 if number % 2 else 5)).hears(publish("t", payload(number)))
    hearer.at(2200).hears(publish("t", payload(1), qos=1, number=7, dup=True))
    hearer.at(2300).hears(publish("$SYS/load", b"1"))
    again = talker.frames[6]  # the second publication
    frames = sorted([*talker.frames, *hearer.frames], key=lambda frame: frame.at_ns)
    frames.insert(frames.index(again) + 4, again)
    return frames


def captures(*files, **more):
    return {"captures": [{"tap": f"tap-{n}", "file": f"traffic/{name}", **more} for n, name in enumerate(files)]}


@pytest.fixture(scope="module")
def analyzed(tmp_path_factory, spark):
    study = new_study(tmp_path_factory.mktemp("captures"))
    about = {"place": "lo", "ports": [1883], "dropped": 2}
    frames = ten_messages()
    for repetition, data in enumerate((pcap(frames), pcap(frames)[:-30], b"no capture at all"), start=1):
        run = RunBuilder(repetition=repetition, more=captures("a.pcap", **about)).write(study)
        write(run.path / "traffic" / "a.pcap", data)
    RunBuilder(repetition=4, more=captures("gone.pcap")).write(study)
    RunBuilder(repetition=5).write(study)
    other = write(tmp_path_factory.mktemp("other") / "b.pcapng", pcapng(frames))
    import_captures(other, study, levels={"broker": "theirs"})
    return study, analyze(spark, study)


@pytest.fixture(scope="module")
def rows(analyzed):
    def of(table, run):
        found = read_table(analyzed[0], table).to_pylist()
        return [row for row in found if row["run_id"] == (run if run == THEIRS else f"broker-amqtt.qos-0/{run}")]

    return of


def test_packets_by_phase_and_type(rows):
    found = {(row["phase"], row["packet_type"]): row for row in rows("traffic", 1)}
    publishes, acks = found["measure", "PUBLISH"], found["measure", "PUBACK"]

    assert (publishes["packets"], publishes["to_broker_packets"], publishes["retransmissions"]) == (21, 10, 1)
    assert publishes["to_broker_bytes"] == 10 * PUBLISH_BYTES
    assert publishes["payload_bytes"] == 10 * 20 + 10 * 20 + 1
    assert (acks["packets"], acks["bytes"], acks["payload_bytes"], acks["bytes_per_payload_byte"]) == (10, 40, 0, None)
    assert found["connect", "CONNECT"]["packets"] == found["connect", "CONNACK"]["packets"] == 2


def test_types_and_the_rest_add_up_to_what_was_on_the_wire(rows):
    measure = {row["packet_type"]: row for row in rows("traffic", 1) if row["phase"] == "measure"}
    whole, rest = measure["all"], measure["TCP/IP"]

    assert whole["packets"] == 10 + 10 + 9 + 2 + 1
    assert whole["bytes"] == rest["bytes"] + measure["PUBLISH"]["bytes"] + measure["PUBACK"]["bytes"]
    assert rest["bytes"] == 32 * HEADERS + PUBLISH_BYTES  # the frame that TCP sent again is no second publication
    assert (whole["retransmissions"], whole["seconds"]) == (1, 2.0)
    assert whole["bytes_per_payload_byte"] == pytest.approx(whole["bytes"] / 401)
    assert whole["bytes_per_s"] == pytest.approx(whole["bytes"] / 2)


def test_rates_and_responsiveness(rows):
    """Ten came in 90 ms; nine left, the last at 2 085 ms; five took 5 ms and four 3 ms."""
    legs = {row["leg"]: row for row in rows("legs", 1)}
    came, left, through = legs["to broker"], legs["from broker"], legs["through broker"]

    assert (came["messages"], left["messages"], through["messages"]) == (10, 9, 9)
    assert (came["window_s"], left["window_s"]) == pytest.approx((0.09, 0.08))
    assert came["whole_window_s"] == left["whole_window_s"] == pytest.approx(0.085)
    assert (came["whole_per_s"], left["whole_per_s"]) == pytest.approx((10 / 0.085, 9 / 0.085))
    assert through["mean_ms"] == pytest.approx((5 * 5 + 4 * 3) / 9)
    assert (through["min_ms"], through["p50_ms"], through["max_ms"]) == pytest.approx((3, 5, 5), rel=0.01)
    assert (through["unmatched"], through["ambiguous"], through["negative_count"]) == (0, 0, 0)


def test_an_imported_capture_counts_as_a_whole(rows):
    legs = {row["leg"]: row for row in rows("legs", THEIRS)}

    assert {row["phase"] for row in rows("traffic", THEIRS)} == {"capture"}
    assert (legs["to broker"]["messages"], legs["through broker"]["messages"]) == (10, 9)
    assert legs["through broker"]["mean_ms"] == pytest.approx((5 * 5 + 4 * 3) / 9)


def test_what_was_captured(rows):
    (row,) = rows("captures", 1)

    assert (row["tap"], row["file"], row["place"], row["dropped"]) == ("tap-0", "traffic/a.pcap", "lo", 2)
    assert (row["links"], row["problems"], row["file_bytes_unread"]) == (["Ethernet"], [], 0)
    assert (row["frames"], row["connections"], row["unopened"], row["foreign"]) == (40, 2, 0, 0)


@pytest.mark.parametrize(
    ("repetition", "says"),
    [(2, "the file ends within a record"), (3, "neither pcap nor pcapng"), (4, "cannot be read")],
)
def test_a_damaged_capture_is_told_and_the_run_stays(rows, repetition, says):
    (row,) = rows("captures", repetition)
    (problem,) = row["problems"]
    (run,) = rows("runs", repetition)

    assert says in problem
    assert run["verdict"] == "valid"
    assert bool(rows("legs", repetition)) == (repetition == 2)


def test_a_run_without_captures_has_no_rows(rows):
    assert rows("traffic", 5) == rows("legs", 5) == rows("captures", 5) == []


def test_files_that_are_cut_give_the_same_as_whole_ones(analyzed, spark):
    facts, _ = read_runs(analyzed[0])
    runs, taps = spark.createDataFrame(manifests_table(facts), schema=MANIFESTS), taps_of_runs(facts)
    of_taps = small_frame(spark, [tap.row() for tap in taps], TAPS)
    cut, whole = (read_captures(spark, taps, largest_whole=largest).cache() for largest in (0, 2**40))

    assertDataFrameEqual(traffic_table(cut, runs=runs), traffic_table(whole, runs=runs))
    assertDataFrameEqual(captures_table(cut, taps=of_taps, runs=runs), captures_table(whole, taps=of_taps, runs=runs))
    assertDataFrameEqual(legs_table(match_messages(cut), runs=runs), legs_table(match_messages(whole), runs=runs))


def test_the_data_source_gives_segments_by_connection(tmp_path, spark):
    path = write(tmp_path / "a.pcap", pcap(ten_messages()))
    spark.dataSource.register(PcapSource)
    found = spark.read.format("pcap").option("split_bytes", "600").load(str(path)).collect()

    assert {row.client for row in found} == {None, "10.0.0.1:1001", "10.0.0.1:1002"}
    assert sum(row.part.frames for row in found if row.part) == 40
    assert sum(len(row.segments) for row in found if row.segments) == 40 * 32
    assert len({row.number for row in found}) > 3


def test_packets_as_rows(tmp_path, spark):
    path = write(tmp_path / "a.pcap", pcap(ten_messages()))
    found = read_packets(spark, path).where("packet_type = 3").collect()

    assert len(found) == 21
    assert {(row.topic_bytes, row.payload_bytes) for row in found} == {(1, 20), (9, 1)}
    assert len({row.payload_hash for row in found if row.to_broker}) == 10


def test_packets_counted_by_type_and_narrow_rows_without_hashes(tmp_path, spark):
    path = write(tmp_path / "a.pcap", pcap(ten_messages()))
    found = {TYPES[row.packet_type]: row.packets for row in count_packets(spark, path).collect()}
    narrow = read_packets(spark, path, columns=("packet_type", "topic_bytes", "payload_bytes"))

    assert found == {"CONNECT": 2, "CONNACK": 2, "PUBLISH": 21, "PUBACK": 10}
    sizes = sorted((row.topic_bytes, row.payload_bytes) for row in narrow.where("packet_type = 3").collect())
    assert sizes == [(1, 20)] * 20 + [(9, 1)]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"path": "a", "port": "1"}, "there is no option 'port'"),
        ({"path": "a", "ports": "mqtt"}, "'mqtt' is no list of ports"),
        ({}, "which file"),
    ],
)
def test_bad_options_are_refused(options, says):
    with pytest.raises(UserError, match=says):
        files_of(options)


def test_what_is_no_capture_is_not_imported(tmp_path):
    results = StudyDirectory(tmp_path / "results")
    file = write(tmp_path / "a.log", b"a line\n")

    with pytest.raises(UserError, match=r"a\.log: not of the format pcap"):
        import_captures(file, results, levels={})
    with pytest.raises(UserError, match="--port 70000 is not between 1 and 65535"):
        import_captures(file, results, levels={}, ports=[70_000])
    assert not results.path.exists()
