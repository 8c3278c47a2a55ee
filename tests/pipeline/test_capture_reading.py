"""Capture files to MQTT packets, without Spark: files made by hand, whose packets can be counted (M-24)."""

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from capture_files import (
    CONNACK,
    COOKED,
    COOKED2,
    ETHERNET,
    LOOP,
    MS,
    NULL,
    PINGREQ,
    RAW,
    START_NS,
    Frame,
    Talk,
    connect,
    pcap,
    pcapng,
    publish,
    write,
)  # fmt: skip
from capture_reading import Read, ten_messages

from brokerlab.errors import UserError
from brokerlab.pipeline.capture import mqtt
from brokerlab.pipeline.capture.container import CUT_OFF, DAMAGED, open_capture, parts_of, read_records

pytestmark = pytest.mark.pipeline


TEN = {"CONNECT": 1, "CONNACK": 1, "PUBLISH": 10, "PUBACK": 10, "PINGREQ": 1, "PINGRESP": 1, "DISCONNECT": 1}


@pytest.mark.parametrize("is_ipv6", [False, True])
@pytest.mark.parametrize("link", [ETHERNET, RAW, COOKED, COOKED2, NULL, LOOP])
def test_ten_messages_on_every_link(tmp_path, link, is_ipv6):
    talk = ten_messages(link=link, is_ipv6=is_ipv6)
    read = Read(write(tmp_path / "a.pcap", pcap(talk.frames, link=link)))

    assert read.types == TEN
    assert read.names == [("[::1]:40000", "[::2]:1883") if is_ipv6 else ("10.0.0.1:40000", "10.0.0.2:1883")]


@pytest.mark.parametrize(
    "data",
    [
        pcap,
        lambda frames: pcap(frames, is_big=True),
        lambda frames: pcap(frames, is_nano=False, is_big=True),
        lambda frames: pcap(frames, is_nano=False),
        pcapng,
        lambda frames: pcapng(frames, is_big=True, digits=6),
        lambda frames: pcapng(frames, digits=0x80 | 30),
        lambda frames: pcapng(frames) + pcapng([], is_big=True),
    ],
)
def test_ten_messages_in_every_container(tmp_path, data):
    talk = ten_messages(vlans=2)
    read = Read(write(tmp_path / "a", data(talk.frames)))

    assert read.types == TEN
    # The first publication is the fifth frame, 4 ms after the first; powers of two keep it to a nanosecond.
    assert abs(read.publishes(mqtt.FIRST_NS)[0] - (START_NS + 4 * MS)) <= 1
    assert read.publishes(mqtt.PACKET_ID) == list(range(1, 11))
    assert set(read.publishes(mqtt.PAYLOAD_BYTES)) == {20}


@pytest.mark.parametrize("form", [pcap, pcapng])
@pytest.mark.parametrize("split_bytes", [1, 100, 777, 1500])
def test_parts_of_any_size_give_the_same_packets(tmp_path, form, split_bytes):
    talk = ten_messages()
    path = write(tmp_path / "a", form(talk.frames))
    whole, split = Read(path), Read(path, split_bytes=split_bytes)

    assert split.parts > 1
    assert split.packets[np.argsort(split.packets[:, mqtt.FIRST_NS])].tolist() == sorted(
        whole.packets.tolist(), key=lambda row: row[mqtt.FIRST_NS]
    )


def words(rng):
    """A stream of packets and how many there are of each kind."""
    packets = [connect()]
    for number in range(1, 60):
        size = rng.choice([0, 1, 20, 126, 127, 128, 300, 20_000])
        packets.append(publish("x" * rng.randint(1, 40), rng.randbytes(size), qos=rng.randint(0, 2), number=number))
        if rng.random() < 0.3:
            packets.append(PINGREQ)
    return packets


@pytest.mark.parametrize("seed", range(6))
def test_streams_cut_anywhere_reordered_and_sent_again(tmp_path, seed):
    rng = random.Random(seed)
    packets = words(rng)
    data = b"".join(packets)
    talk = Talk().open().says(data, cuts=sorted(rng.sample(range(1, len(data)), 200)))
    head, frames = talk.frames[:2], talk.frames[2:]
    for _ in range(30):
        at = rng.randrange(len(frames) - 3)
        frames[at : at + 3] = rng.sample(frames[at : at + 3], 3)
    for _ in range(20):
        at = rng.randrange(len(frames))
        frames.insert(min(at + rng.randint(1, 5), len(frames)), frames[at])
    read = Read(write(tmp_path / "a.pcap", pcap(head + frames)), split_bytes=rng.choice([500, 1 << 26]))

    assert read.packets[:, mqtt.SIZE].tolist() == [len(each) for each in packets]
    assert read.fresh_bytes == len(data)
    assert (read.counts[0].gaps, read.counts[0].unread_bytes) == (0, 0)


def test_segments_that_overlap_count_their_new_bytes_once(tmp_path):
    """Sent as [0, 10), [10, 30), then both again as [0, 30) with ten bytes more."""
    data = connect() + publish("t", b"x" * 60)
    talk = Talk().open()
    base = talk.seq[True]
    for start, end in ((0, 10), (10, 30), (0, 40), (40, len(data))):
        talk.seq[True] = base + start
        talk.add(True, data[start:end])
    read = Read(write(tmp_path / "a.pcap", pcap(talk.frames)))

    assert read.types == {"CONNECT": 1, "PUBLISH": 1}
    assert read.fresh_bytes == len(data)


def test_bytes_that_are_missing_in_a_payload_cost_nothing_else(tmp_path):
    talk = Talk().open().says(connect()).says(publish("t", b"y" * 3000), cuts=[1000, 2000]).says(PINGREQ)
    del talk.frames[4]
    read = Read(write(tmp_path / "a.pcap", pcap(talk.frames)))

    assert read.types == {"CONNECT": 1, "PUBLISH": 1, "PINGREQ": 1}
    assert read.publishes(mqtt.PAYLOAD_BYTES) == [3000]
    assert not any(kind & mqtt.IS_WHOLE for kind in read.publishes(mqtt.KIND))
    assert (read.counts[0].gaps, read.counts[0].gap_bytes, read.counts[0].lost_step) == (1, 1000, 0)


def test_a_header_that_is_missing_loses_packets_until_a_segment_begins_with_one(tmp_path):
    """Of four publications the end of the second and the beginning of the third are missing."""
    two = publish("t", b"1" * 50) + publish("t", b"2" * 50)
    talk = Talk().open().says(connect()).says(two[:-20]).says(two[-20:]).says(publish("t", b"3" * 50), cuts=[30])
    talk.says(publish("t", b"4" * 50))
    del talk.frames[4:6]
    read = Read(write(tmp_path / "a.pcap", pcap(talk.frames)))

    assert read.types == {"CONNECT": 1, "PUBLISH": 3}
    assert read.publishes(mqtt.PAYLOAD_BYTES) == [50] * 3
    assert read.counts[0].lost_step == 1
    assert read.counts[0].unread_bytes > 0


def test_frames_captured_in_part_still_have_their_headers(tmp_path):
    """80 bytes a frame: 26 of MQTT, which is enough for the header of a publication but not for its payload."""
    talk = Talk().open().says(connect()).hears(CONNACK)
    for _ in range(5):
        talk.says(publish("t", b"z" * 500))
    frames = [replace(frame, captured=80) for frame in talk.frames]
    read = Read(write(tmp_path / "a.pcap", pcap(frames)))

    assert read.types == {"CONNECT": 1, "CONNACK": 1, "PUBLISH": 5}
    assert read.publishes(mqtt.PAYLOAD_BYTES) == [500] * 5


def test_the_same_ports_again_are_another_connection(tmp_path):
    first = ten_messages()
    second = Talk(seq={True: 5_000_000, False: 9}).open().says(connect(5)).hears(b"\x20\x03\0\0\0")
    second.says(publish("t", b"five", properties=b""))
    read = Read(write(tmp_path / "a.pcap", pcap(first.frames + second.frames)))

    assert read.counts[0].connections == 2
    assert read.types == Counter(TEN) + Counter({"CONNECT": 1, "CONNACK": 1, "PUBLISH": 1})
    assert read.publishes(mqtt.PAYLOAD_BYTES)[-1] == 4


def test_mqtt_31_and_a_topic_alias_of_mqtt_5(tmp_path):
    old = Talk(client=("10.0.0.9", 1)).open().says(connect(3)).says(publish("old", b"abc"))
    new = Talk(client=("10.0.0.8", 2)).open().says(connect(5))
    alias = b"\x26" + bytes([0, 1]) + b"k" + bytes([0, 1]) + b"v" + b"\x23\0\x05"
    new.says(publish("plant/1", b"one", properties=alias) + publish("", b"three", properties=b"\x23\0\x05"))
    read = Read(write(tmp_path / "a.pcap", pcap(old.frames + new.frames)))

    lengths, topics = read.publishes(mqtt.PAYLOAD_BYTES), read.publishes(mqtt.TOPIC)
    assert sorted(zip(lengths, read.publishes(mqtt.TOPIC_BYTES), strict=True)) == [(3, 3), (3, 7), (5, 7)]
    assert topics[lengths.index(5)] in topics[:2]


def test_the_version_is_known_from_the_answer_where_only_the_brokers_side_was_captured(tmp_path):
    talk = Talk().open().says(connect(5)).hears(b"\x20\x03\0\0\0").hears(publish("t", b"four", properties=b""))
    read = Read(write(tmp_path / "a.pcap", pcap([talk.frames[1], *talk.frames[3:]])))

    assert read.publishes(mqtt.PAYLOAD_BYTES) == [4]


def test_a_connection_without_its_beginning_is_read_and_counted(tmp_path):
    talk = ten_messages()
    read = Read(write(tmp_path / "a.pcap", pcap(talk.frames[8:])))

    assert read.types["PUBLISH"] == 8
    assert (read.counts[0].unopened, read.counts[0].foreign) == (1, 0)


def test_tls_is_counted_as_foreign_and_nothing_is_made_up(tmp_path):
    hello = b"\x16\x03\x01\x00\x50" + bytes(range(80))
    talk = Talk().open().says(hello).hears(hello).says(b"\x17\x03\x03\x00\x10" + bytes(16))
    read = Read(write(tmp_path / "a.pcap", pcap(talk.frames)))

    assert read.types == {}
    assert read.counts[0].foreign == 1
    assert read.counts[0].unread_bytes == 85 + 85 + 21


def test_other_ports_other_protocols_fragments_and_foreign_links_are_counted(tmp_path):
    own, other = ten_messages(), ten_messages(broker=("10.0.0.2", 80))
    fragment = bytearray(own.frames[4].data)
    fragment[20:22] = b"\x20\x00"  # more fragments follow
    arp = Frame(START_NS, bytes(12) + b"\x08\x06" + bytes(28))
    frames = [*own.frames, *other.frames, Frame(START_NS, bytes(fragment)), arp, Frame(START_NS, b"\0" * 10)]
    path = write(tmp_path / "a.pcap", pcap(frames))
    foreign = Read(write(tmp_path / "b.pcap", pcap(frames, link=147)))
    read = Read(path)

    assert read.types == TEN
    names = ("frames", "other_frames", "fragments", "short_frames", "foreign_frames", "backwards_frames")
    counted = [read.tallies[name] for name in names]
    assert counted == [2 * len(own.frames) + 3, len(own.frames) + 1, 1, 1, 0, 2]
    assert foreign.tallies["foreign_frames"] == foreign.tallies["frames"]


@pytest.mark.parametrize("form", [pcap, pcapng])
def test_a_file_cut_off_anywhere_tells_what_is_missing(tmp_path, form):
    talk = ten_messages()
    data = form(talk.frames)
    for size in range(60, len(data), 97):
        read = Read(write(tmp_path / "a", data[:size]))
        unread = sum(each.unread_bytes for each in read.records)

        assert 0 <= unread < 160
        assert all(each.ended == (CUT_OFF if each.unread_bytes else 0) for each in read.records)
        assert read.types["PUBLISH"] <= 10


def test_a_file_damaged_in_the_middle_is_read_up_to_there(tmp_path):
    talk = ten_messages()
    data = pcap(talk.frames)
    read = Read(write(tmp_path / "a", data[:900] + b"\xff" * 64 + data[964:]))

    assert read.records[-1].ended in (CUT_OFF, DAMAGED)
    assert read.records[-1].unread_bytes > 0
    assert 0 < read.types["PUBLISH"] < 10


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "the file is empty"),
        (b"PAR1 and more of it", "neither pcap nor pcapng"),
        (b"\x1f\x8b\x08\0\0\0\0\0", r"compressed \(gzip\)"),
        (pcap([])[:20], "neither pcap nor pcapng"),
    ],
)
def test_a_foreign_file_is_refused_with_its_name(tmp_path, data, says):
    with pytest.raises(UserError, match=rf"foreign\.pcap: .*{says}"):
        parts_of(str(write(tmp_path / "foreign.pcap", data)))


def test_a_packet_of_megabytes_over_many_segments(tmp_path):
    payload = random.Random(1).randbytes(3_000_000)
    talk = Talk().open().says(connect()).says(publish("t", payload), cuts=range(1000, 3_000_000, 60_000)).says(PINGREQ)
    read = Read(write(tmp_path / "a.pcap", pcap(talk.frames)), split_bytes=1 << 20)

    assert read.types == {"CONNECT": 1, "PUBLISH": 1, "PINGREQ": 1}
    assert read.publishes(mqtt.PAYLOAD_BYTES) == [3_000_000]
    (first_ns,), (last_ns,) = read.publishes(mqtt.FIRST_NS), read.publishes(mqtt.LAST_NS)
    assert last_ns - first_ns == 50 * MS


def test_headers_without_a_meaning_are_not_packets():
    assert mqtt.is_possible(0x30, 10, True, 4)
    assert not mqtt.is_possible(0x36, 10, True, 4)  # QoS 3
    assert not mqtt.is_possible(0x40, 3, True, 4)  # a longer PUBACK is MQTT 5
    assert mqtt.is_possible(0x40, 3, True, 5)
    assert not mqtt.is_possible(0x20, 2, True, 4)  # a CONNACK from a client
    assert not mqtt.is_possible(0x00, 2, True, 0)


def test_no_frames_at_all(tmp_path):
    read = [read_records(open_capture(part.path), part) for part in parts_of(str(write(tmp_path / "a", pcap([]))))]

    assert [len(each.rows) for each in read] == [0]


def test_tens_of_thousands_of_connections_in_one_part(tmp_path):
    frames = [
        talk.frames[2]
        for number in range(20_000)
        for talk in [Talk(client=(f"10.1.{number // 250}.{number % 250}", 1000 + number)).open().says(connect())]
    ]
    read = Read(write(tmp_path / "a.pcap", pcap(frames)))

    assert len(read.names) == 20_000
    assert read.types == {"CONNECT": 20_000}
