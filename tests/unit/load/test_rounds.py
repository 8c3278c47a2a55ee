"""Subscribers that are served together: everything that is sent to them, wherever it is cut, and what ends a round."""

import select
import socket
import tempfile
from array import array
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from subscribing_rig import subscribed_at

from brokerlab.load.packets import PingResp, PubAck, PubComp, Publish, PubRec, PubRel
from brokerlab.record.directory import RunDirectory
from brokerlab.study.values import Arrivals, Qos, Schedule, Workload

pytestmark = pytest.mark.unit

SUBSCRIBERS = 3


def workload(qos, *, payload_bytes=16):
    return Workload(
        subscribers=SUBSCRIBERS, payload_bytes=payload_bytes, qos=Qos(qos),
        schedule=Schedule(Arrivals.SATURATE, window=10),
    )  # fmt: skip


def message(seq, *, qos, size=16):
    identity = (5).to_bytes(8, "little") + (0).to_bytes(4, "little") + seq.to_bytes(4, "little")
    return Publish("t", identity + bytes(size - 16), qos, seq + 1 if qos else None)


def stream_of(kinds, qos):
    """Packets of a broker, and what they are answered with; "long" is more than the table has room for, of a part."""
    packets, answers = [], []
    for seq, kind in enumerate(kinds):
        if kind == "ping":
            packets.append(PingResp())
            continue
        packets.append(message(seq, qos=qos, size=5000 if kind == "long" else 16))
        answers += [] if qos == 0 else [PubAck(seq + 1) if qos == 1 else PubRec(seq + 1)]
        if qos == 2:
            packets.append(PubRel(seq + 1))
            answers.append(PubComp(seq + 1))
    return b"".join(each.encode() for each in packets), b"".join(each.encode() for each in answers)


def rows_of(folder):
    table = ds.dataset(RunDirectory(folder).raw("deliveries"), format="parquet").to_table()
    found = {number: [] for number in range(SUBSCRIBERS)}
    for row in table.to_pylist():
        found[row["subscriber"]].append((row["seq"], row["payload_bytes"]))
    return found


streams = st.lists(st.lists(st.sampled_from(["plain", "plain", "ping", "long"]), max_size=30),
                   min_size=SUBSCRIBERS, max_size=SUBSCRIBERS)  # fmt: skip


@settings(deadline=None, max_examples=25)
@given(st.integers(0, 2), streams, st.lists(st.integers(1, 3000), max_size=12), st.sampled_from([0.0, 0.001]))
def test_all_that_is_sent_is_recorded_once_and_answered_in_order(qos, kinds, cuts, pause_s):
    made = [stream_of(each, qos) for each in kinds]
    expected = {
        number: [(seq, 5000 if kind == "long" else 16) for seq, kind in enumerate(each) if kind != "ping"]
        for number, each in enumerate(kinds)
    }
    total = sum(map(len, expected.values()))
    counts, heard = array("q", [0, 0, 10]), [b""] * SUBSCRIBERS
    with tempfile.TemporaryDirectory() as folder:
        with subscribed_at(workload(qos), Path(folder), counts, subscribers=SUBSCRIBERS) as (role, drive, ends):
            at = 0
            for cut in [*cuts, 1 << 20]:
                for end, (data, _) in zip(ends, made, strict=True):
                    end.sendall(data[at : at + cut])
                at += cut
                turns = iter(range(2))
                drive(lambda turns=turns: next(turns, None) is None, pause_s=pause_s)

            def is_done():
                for number, end in enumerate(ends):
                    while select.select([end], [], [], 0)[0]:
                        heard[number] += end.recv(65_536)
                return counts[0] == total and heard == [each[1] for each in made]

            drive(is_done, pause_s=pause_s)
            assert role.close().messages == total
        if total:
            assert rows_of(Path(folder)) == expected


def test_who_is_left_by_the_broker_does_not_disturb_the_others(tmp_path):
    counts = array("q", [0, 0, 10])
    with subscribed_at(workload(1), tmp_path, counts, subscribers=SUBSCRIBERS) as (role, drive, ends):
        for seq in range(2):
            for end in ends:
                end.sendall(message(seq, qos=1).encode())
        ends[1].shutdown(socket.SHUT_WR)
        drive(lambda: counts[0] == 2 * SUBSCRIBERS, pause_s=0.001)
        ends[2].sendall(b"\xf0\x00" + message(2, qos=1).encode())  # a packet that has no place here
        ends[0].sendall(message(2, qos=1).encode())
        drive(lambda: counts[0] == 2 * SUBSCRIBERS + 1 and len(role._connections.open) == 1, pause_s=0.001)
        stopped = role.close()

    assert stopped.messages == 2 * SUBSCRIBERS + 1
    assert len(stopped.closed_by_broker) == 2
    assert any("type 15" in each for each in stopped.closed_by_broker)


@pytest.mark.parametrize("pause_s", [0.0, 0.001])
def test_answers_that_sockets_do_not_take_come_later_and_in_order(tmp_path, pause_s):
    """The broker reads nothing from two of its clients until they have answers for more than the sockets hold."""
    counts, piece = array("q", [0, 0, 10]), 65_536
    data = [b"".join(message((seq + turn) % 60_000, qos=1).encode() for seq in range(100_000)) for turn in range(2)]
    each = len(message(0, qos=1).encode())
    with subscribed_at(workload(1), tmp_path, counts, subscribers=SUBSCRIBERS) as (role, drive, ends):
        for end, subscriber in zip(ends, role._open.values(), strict=True):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            subscriber.stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        *stuck, other = ends
        sent = 0

        def go_on():
            nonlocal sent
            for end, stream in zip(stuck, data, strict=True):
                end.sendall(stream[sent : sent + piece])
            sent += piece
            drive(lambda: counts[0] >= len(stuck) * (sent // each), pause_s=pause_s)

        while not role._connections.is_writing:
            assert sent < len(data[0])
            go_on()
        other.sendall(message(0, qos=1).encode())
        before = counts[0]
        drive(lambda: counts[0] > before, pause_s=pause_s)  # who waits for its socket keeps nobody waiting
        heard = dict.fromkeys(stuck, b"")

        def is_answered():
            for end in stuck:
                if select.select([end], [], [], 0)[0]:
                    heard[end] += end.recv(1 << 20)
            return all(len(answers) >= 4 * (sent // each) for answers in heard.values())

        drive(is_answered, pause_s=pause_s)
        go_on()
        drive(is_answered, pause_s=pause_s)
        assert role.close().messages == 2 * (sent // each) + 1

    for turn, answers in enumerate(heard.values()):
        expected = b"".join(PubAck((seq + turn) % 60_000 + 1).encode() for seq in range(sent // each))
        assert answers == expected
