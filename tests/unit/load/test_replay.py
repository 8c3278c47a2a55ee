"""A file as messages: every byte of every record, split without loss, told apart by content, at its own times."""

import csv
import io
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokerlab.errors import UserError
from brokerlab.load import wire
from brokerlab.load.crew import Crew
from brokerlab.load.messages import messages_of, published_bytes
from brokerlab.load.parser import Parser
from brokerlab.load.replay import RecordMessages, limited, replay_ns, replayed
from brokerlab.load.resolver import resolver_of
from brokerlab.load.schedule import Span
from brokerlab.load.spec import Client, WorkerSpec
from brokerlab.study.problems import RuleError
from brokerlab.study.replay import digest, measure_s, parse
from brokerlab.study.topics import expand
from brokerlab.study.values import Arrivals, Payload, Phases, Qos, Record, Replay, Schedule, Split, Topics, Workload

pytestmark = pytest.mark.unit

SECOND_NS = 1_000_000_000
SHARED = Topics(publish="all", subscribe="all")


def workload_of(folder, content: bytes, *, qos=0, load=None, **how):
    path = folder / "records"
    path.write_bytes(content)
    replay = Replay(str(path), digest(content), **how)
    return Workload(payload=Payload(replay=replay), qos=Qos(qos), **(load or {}))


def messages_by(workload, publisher) -> RecordMessages:
    client = Client(publisher, f"p{publisher}", expand(workload.topics.publish, publisher=publisher))
    return messages_of(client, workload, seed=1, level=4)


def sent(messages, *seqs: int) -> bytes:
    blocks = [messages.build(seq, np.array([1], dtype=np.int64)) for seq in seqs]
    return b"".join(bytes(piece.data) for block in blocks for piece in block)


def told(workload, stream: bytes) -> list[tuple[int, int]]:
    """(publisher, seq) of every message of the stream."""
    resolver, rows = resolver_of(workload), np.zeros((500, 5), dtype=np.int64)
    buffer, held = np.frombuffer(bytearray(stream), dtype=np.uint8), np.zeros(wire.HELD_BYTES, dtype=np.uint8)
    _, row, _, _, why = wire.walk_deliveries(buffer, buffer.size, 0, 4, rows, 0, held, np.zeros(4096, dtype=np.uint8))
    assert why == wire.NEED_MORE
    resolver.resolve(buffer, 4, rows, 0, row, resolver.expected())
    return [tuple(each) for each in rows[:row, :2].tolist()]


def test_a_file_that_changes_under_a_worker_is_the_users_to_put_right_and_no_fault_of_the_broker(tmp_path):
    workload = workload_of(tmp_path, b"one\ntwo\n", split=Split.TURNS)
    (tmp_path / "records").write_bytes(b"one\n2\n")
    spec = WorkerSpec("subscribers/0", 0, "127.0.0.1", 1, (Client(0, "s0", "t"),), workload, 1.0, 1, tmp_path)

    with pytest.raises(UserError, match="has changed") as raised, Crew([spec]) as crew:
        crew.connect(timeout_s=5)

    assert raised.value.hint == "start the study again to read the file anew"


RECORDS = st.lists(st.binary(max_size=60).map(lambda line: line.replace(b"\n", b"")), min_size=1, max_size=40)


@settings(max_examples=100, deadline=None)
@given(RECORDS, st.integers(1, 4), st.sampled_from([Split.TURNS, Split.BLOCKS]), st.booleans())
def test_all_publishers_together_send_the_file_byte_for_byte(tmp_path_factory, records, publishers, split, is_closed):
    content = b"\n".join(records) + b"\n" * is_closed
    records = content.split(b"\n")[: -1 if content.endswith(b"\n") else None]
    if not content:
        return  # no record, which is refused
    workload = workload_of(tmp_path_factory.mktemp("r"), content, load={"publishers": publishers}, split=split)

    each = [messages_by(workload, number) for number in range(publishers)]
    stream = b"".join(sent(messages, *range(messages.count)) for messages in each)
    payloads = [packet.payload for packet in Parser().feed(stream)]

    assert sorted(payloads) == sorted(records)
    order = np.arange(len(records))
    turns = [order[number::publishers] for number in range(publishers)]
    parts = np.array_split(order, publishers) if split is Split.BLOCKS else turns
    assert payloads == [records[place] for part in parts for place in part]
    assert told(workload, stream) == [
        (number, seq) for number in range(publishers) for seq in range(each[number].count)
    ]
    assert sum(map(len, records)) == published_bytes(workload, {n: m.count for n, m in enumerate(each)}, seed=1)


def test_csv_leaves_its_header_out_and_keeps_quoted_lines_together(tmp_path):
    content = b'bus,at\r\n1,"two\r\nlines"\r\n2,"say ""no"""\r\n\r\n1,x'
    records = [b'1,"two\r\nlines"\r', b'2,"say ""no"""\r', b"1,x"]

    for header, expected in ((True, records), (False, [b"bus,at\r", *records])):
        workload = workload_of(tmp_path, content, record=Record.CSV, header=header)
        messages = messages_by(workload, 0)
        assert [packet.payload for packet in Parser().feed(sent(messages, *range(messages.count)))] == expected


def test_a_key_keeps_the_records_of_one_value_with_one_publisher(tmp_path):
    content = b"bus,n\na,1\nb,2\nc,3\na,4\nb,5\n"
    workload = workload_of(tmp_path, content, load={"publishers": 2}, record=Record.CSV, split=Split.KEY, key="bus")

    payloads = [
        [packet.payload for packet in Parser().feed(sent(messages, *range(messages.count)))]
        for messages in (messages_by(workload, number) for number in (0, 1))
    ]

    assert payloads == [[b"a,1", b"c,3", b"a,4"], [b"b,2", b"b,5"]]


def test_lost_late_and_repeated_records_are_told_by_their_bytes(tmp_path):
    workload = workload_of(tmp_path, b"\n".join(b"record %d" % number for number in range(100)))
    order = [0, 1, 5, 6, 6, 3, 90, 7, 99]

    assert told(workload, sent(messages_by(workload, 0), *order)) == [(0, seq) for seq in order]


def test_equal_records_follow_each_other_and_strange_bytes_are_nobody_s(tmp_path):
    workload = workload_of(tmp_path, b"a\na\nb\na\n")
    stream = sent(messages_by(workload, 0), 0, 1, 2, 3)
    strange = stream[:-1] + b"x"

    assert told(workload, stream) == [(0, 0), (0, 1), (0, 2), (0, 3)]
    assert told(workload, strange)[-1] == (-1, -1)


def test_publishers_of_one_topic_are_told_by_their_records(tmp_path):
    load = {"publishers": 3, "topics": SHARED}
    workload = workload_of(tmp_path, b"\n".join(b"%d" % number for number in range(9)), load=load)
    first, second, third = (messages_by(workload, number) for number in range(3))

    stream = sent(first, 0) + sent(third, 0, 1) + sent(second, 0, 1) + sent(first, 2)

    assert told(workload, stream) == [(0, 0), (2, 0), (2, 1), (1, 0), (1, 1), (0, 2)]


def test_publishers_of_one_topic_may_repeat_records_that_differ(tmp_path):
    load = {"publishers": 2, "topics": SHARED}
    workload = workload_of(tmp_path, b"a\nb\na\nb\nc\nd\nc\nd", load=load, split=Split.BLOCKS, repeat=True)
    first, second = (messages_by(workload, number) for number in range(2))

    stream = sent(first, 0, 1, 2) + sent(second, 0, 2, 3, 4) + sent(first, 3, 4, 5, 7) + sent(second, 5, 6, 7, 8)

    assert told(workload, stream) == [
        *((0, seq) for seq in (0, 1, 2)),
        *((1, seq) for seq in (0, 2, 3, 4)),
        *((0, seq) for seq in (3, 4, 5, 7)),
        *((1, seq) for seq in (5, 6, 7, 8)),
    ]


def test_a_repeated_file_begins_again(tmp_path):
    workload = workload_of(tmp_path, b"a\nb\nc\nd\ne\nf", repeat=True)
    messages = messages_by(workload, 0)
    order = [0, 1, 2, 3, 4, 5, 6, 8, 7, 8, 11, 12]

    assert messages.count is None
    assert messages.payload_bytes(0, 20).sum() == 20
    assert told(workload, sent(messages, *order)) == [(0, seq) for seq in order]


def test_a_large_record_is_sent_whole(tmp_path):
    content = b"small\n" + bytes(range(11, 256)) * 1000 + b"\nlast"
    messages = messages_by(workload_of(tmp_path, content, qos=1), 0)

    packets = Parser().feed(sent(messages, 0, 1, 2))

    assert b"\n".join(packet.payload for packet in packets) == content
    assert [packet.packet_id for packet in packets] == [1, 2, 3]


def test_records_go_at_their_own_times_from_the_measure_phase_on(tmp_path):
    content = b'{"at": "2024-01-01T00:00:00Z"}\n{"at": "2024-01-01T00:00:01.5Z"}\n{"at": "2024-01-01T00:00:02Z"}\n'
    schedule = Schedule(Arrivals.REPLAY, speed=2.0)
    load = {"publishers": 2, "schedule": schedule}
    workload = workload_of(tmp_path, content, record=Record.JSONL, time="at", load=load)
    span = Span(0, 100 * SECOND_NS, 7 * SECOND_NS)

    due = [np.concatenate(list(replay_ns(messages_by(workload, n), schedule, span))).tolist() for n in (0, 1)]

    assert due == [[7 * SECOND_NS, 8 * SECOND_NS], [7_750_000_000]]
    assert measure_s(workload, Phases()) == pytest.approx(1.001)


def test_at_a_rate_the_measure_phase_lasts_as_long_as_the_longest_share(tmp_path):
    schedule = Schedule(Arrivals.REPLAY, rate_per_s=10)
    workload = workload_of(tmp_path, b"x\n" * 101, load={"publishers": 2, "schedule": schedule})
    end_ns = int(measure_s(workload, Phases(measure_s=1)) * 1e9)

    due = [
        np.concatenate(list(limited(replay_ns(messages, schedule, Span(0, end_ns, 0, number, 2)), messages.count)))
        for number, messages in enumerate(messages_by(workload, number) for number in (0, 1))
    ]

    assert [times.size for times in due] == [51, 50]
    assert max(times.max() for times in due) < end_ns == 5_100_000_000


@pytest.mark.parametrize("change", [lambda path: path.unlink(), lambda path: path.write_bytes(b"other")])
def test_a_file_that_is_gone_or_has_changed_is_bad_input(tmp_path, change):
    workload = workload_of(tmp_path, b"a\nb\n")
    change(tmp_path / "records")

    with pytest.raises(UserError, match=r"no such file|has changed"):
        replayed(workload.payload.replay)


@pytest.mark.parametrize(
    ("text", "is_whole"), [(b"t,v\n1,2\n3", False), (b"t,v\n1,2\n3\n", True), (b"t,v\n1,2\n3,4", True)]
)
def test_a_day_s_readings_that_are_cut_off_are_refused_with_the_record(text, is_whole):
    """F-12: nothing of it is sent."""
    read = partial(parse, text, record=Record.CSV, header=True, time=None, key=None)
    if is_whole:
        assert read().count == 2
    else:
        with pytest.raises(RuleError, match="cut off: record 2, its last, has 1 of 2 fields"):
            read()


@pytest.mark.parametrize("time", [b"true", b"false", b"NaN", b"Infinity", b"-Infinity", b'"nan"', b"1" + b"0" * 400])
def test_a_time_that_is_no_time_is_refused_with_its_record(time):
    """Python reads them as numbers; a measure phase would last for centuries, or end before it begins."""
    with pytest.raises(RuleError, match=r"record 2 of the file: t is .*, neither seconds nor an ISO 8601 time"):
        parse(b'{"t": 1}\n{"t": %b}\n' % time, record=Record.JSONL, header=False, time="t", key=None)


def test_times_that_are_too_far_apart_are_refused():
    with pytest.raises(RuleError, match=r"by its t, are 1e\+300 s apart; the most are 9e\+09 s"):
        parse(b"t,v\n0,1\n1e300,2\n", record=Record.CSV, header=True, time="t", key=None)


def test_lines_of_json_that_are_cut_off_are_refused_with_the_record():
    with pytest.raises(RuleError, match="cut off: record 2, its last, is no whole JSON and has no line end"):
        parse(b'{"t": 1}\n{"t":', record=Record.JSONL, header=False, time="t", key=None)
    with pytest.raises(RuleError, match="record 1 of the file is no JSON"):
        parse(b'{"t":\n{"t": 2}\n', record=Record.JSONL, header=False, time="t", key=None)


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        ([b'0,5" pipe', b'1,7" pipe', b"2,z"], ['5" pipe', '7" pipe', "z"]),
        ([b'0,"a" b", c', b'1, "d', b'2,"e\n""f"""'], ['a b"', ' "d', 'e\n"f"']),
        ([b'0,"",x', b'1,""""\r', b'2,"\r\n"\r'], ["", '"', "\r\n"]),
        ([b"0," + b"x" * 300_000, b'1,"' + b'y""\n' * 100_000 + b'"'], ["x" * 300_000, 'y"\n' * 100_000]),
    ],
    ids=["inches", "behind and before quotes", "empty", "long"],
)
def test_a_quote_opens_a_field_at_its_start_alone(records, expected):
    text = b"\n".join([b"t,v,w", *records, b""])
    read = parse(text, record=Record.CSV, header=True, time="t", key="v")

    assert [text[begin:end] for begin, end in zip(read.begins, read.ends, strict=True)] == records
    assert read.keys == tuple(expected)


@pytest.mark.parametrize("first", [b"t", b'"t"', b'"\nt"'])
def test_a_byte_order_mark_belongs_to_no_column(tmp_path, first):
    text = b"\xef\xbb\xbf" + first + b",v\n1,x\n3,y\n"
    read = parse(text, record=Record.CSV, header=True, time=first.strip(b'"').decode(), key="v")

    assert (read.offsets_ns.tolist(), read.keys) == ([0, 2 * SECOND_NS], ("x", "y"))
    assert [text[begin:end] for begin, end in zip(read.begins, read.ends, strict=True)] == [b"1,x", b"3,y"]


@pytest.mark.parametrize(
    ("record", "text", "time"),
    [
        (Record.JSONL, b'{"t": 1}\n{"t": 3}\n', "t"),
        (Record.CSV, b'"1\n2",x\n3,y\n', None),
        (Record.LINE, b"one\ntwo\n", None),
    ],
)
def test_a_byte_order_mark_is_sent_with_the_record_that_it_stands_in(record, text, time):
    text = b"\xef\xbb\xbf" + text
    read = parse(text, record=record, header=False, time=time, key=None)

    assert read.count == 2
    assert text[: read.ends[0]].startswith(b"\xef\xbb\xbf")
    assert read.begins[0] == 0
    assert time is None or read.offsets_ns.tolist() == [0, 2 * SECOND_NS]


@given(st.lists(st.lists(st.text('a",\n ', max_size=6), min_size=2, max_size=3), min_size=1, max_size=6))
def test_what_csv_writes_is_cut_as_csv_reads_it(rows):
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows([["name", "other", "third"], *rows])
    read = parse(out.getvalue().encode(), record=Record.CSV, header=True, time=None, key="name")

    assert read.keys == tuple(row[0] for row in rows)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (b"time,a\r1,2\r2,3\r", "the header of the file has a carriage return outside quotes; lines of CSV end with"),
        (b"time,a\n1,x\ry\n2,z\n", "record 1 of the file has a carriage return outside quotes"),
        (b"time,a\n1,x\n2,x\ry\n3,z\n", "record 2 of the file has a carriage return outside quotes"),
        (b'time,a\n1,x\n2,"y\n3,z\n', "a quoted field of the file, which begins in its line 3, does not end"),
        (b"time,a\n1,x\n\n2\n3,z\n", "record 2 of the file has no a: it has 1 of 2 fields"),
    ],
)
def test_what_is_no_csv_is_refused_with_its_place(text, rule):
    with pytest.raises(RuleError, match=rule):
        parse(text, record=Record.CSV, header=True, time="time", key="a")


def test_json_in_too_many_layers_is_refused_with_its_record():
    with pytest.raises(RuleError, match="record 2 of the file is JSON in too many layers of brackets"):
        parse(b"[]\n" + b"[" * 100_000 + b"]" * 100_000, record=Record.JSONL, header=False, time=None, key=None)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (b"-22.9,43.2\n-22.8,43.1\n", "names column 1 '-22.9', which is a number"),
        (b"bus,,speed\nA1,1,2\n", "has no name for column 2"),
        (b"bus,bus\nA1,1\n", "names two columns 'bus'"),
        (b"bus,speed\nA1,1,2\n", "has 2 columns, and its first record 3"),
    ],
)
def test_a_first_line_that_is_no_header_is_refused_and_may_be_sent_instead(text, rule):
    with pytest.raises(RuleError, match=rule):
        parse(text, record=Record.CSV, header=True, time=None, key=None)

    assert parse(text, record=Record.CSV, header=False, time=None, key=None).count == text.count(b"\n")
