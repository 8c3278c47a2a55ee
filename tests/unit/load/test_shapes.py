"""Messages of every shape: what is built is what the plain parser reads, and its identity is read back exactly."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokerlab.load import wire
from brokerlab.load.content import LARGE_BYTES
from brokerlab.load.identity import UNKNOWN_NS
from brokerlab.load.messages import messages_of, published_bytes
from brokerlab.load.packets import LEVELS, Publish
from brokerlab.load.parser import Parser
from brokerlab.load.resolver import resolver_of
from brokerlab.load.spec import Client
from brokerlab.study.identity import Identity, identity_of
from brokerlab.study.topics import expand
from brokerlab.study.values import Content, Payload, Qos, Topics, Workload

pytestmark = pytest.mark.unit

SHARED = Topics(publish="plant/all", subscribe="plant/#")
TEMPLATE = '{"seq": {seq}, "at": {intended_ns}, "who": {publisher}, "value": {random}, "more": {random}}'
SECOND_NS = 1_000_000_000


def built(messages, first_seq: int, intended_ns) -> bytes:
    pieces = messages.build(first_seq, np.asarray(intended_ns, dtype=np.int64))
    return b"".join(bytes(piece.data) for piece in pieces)


def messages_by(workload: Workload, publisher: int, *, level: int = 4, seed: int = 1):
    client = Client(publisher, f"p{publisher}", expand(workload.topics.publish, publisher=publisher))
    return messages_of(client, workload, seed=seed, level=level)


def walked(workload: Workload, stream: bytes, cuts: list[int], *, level: int = 4) -> list[tuple[int, ...]]:
    """(publisher, seq, intended, payload bytes) as a subscriber reads them, with small outputs and a cut stream."""
    resolver, rows, rest = resolver_of(workload), [], b""
    expected, held = resolver.expected() if resolver else None, np.zeros(wire.HELD_BYTES, dtype=np.uint8)
    for begin, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        buffer = np.frombuffer(bytearray(rest + stream[begin:end]), dtype=np.uint8)
        at, why = 0, wire.FULL
        while why == wire.FULL:
            out, acks = np.zeros((5, 5), dtype=np.int64), np.zeros(64, dtype=np.uint8)
            at, row, _, _, why = wire.walk_deliveries(buffer, buffer.size, at, level, out, 0, held, acks)
            if resolver:
                resolver.resolve(buffer, level, out, 0, row, expected)
            rows += [tuple(each) for each in out[:row, :4].tolist()]
        assert why == wire.NEED_MORE
        rest = buffer[at:].tobytes()
    assert rest == b""
    return rows


SIZES = st.one_of(st.integers(0, 20), st.sampled_from([64, 200, LARGE_BYTES + 7]))
PAYLOADS = st.one_of(
    SIZES.map(lambda size: (size, Payload())),
    st.lists(st.tuples(SIZES, st.just(25.0)), min_size=4, max_size=4, unique_by=lambda part: part[0]).map(
        lambda mix: (max(size for size, _ in mix), Payload(mix=tuple(mix)))
    ),
    st.lists(SIZES, min_size=2, max_size=3).map(lambda each: (max(each), Payload(each=tuple(each)))),
    st.integers(150, 400).map(lambda size: (size, Payload(Content.JSON, TEMPLATE))),
    st.sampled_from([Content.ZEROS, Content.TEXT]).map(lambda content: (40, Payload(content))),
)


@settings(max_examples=100, deadline=None)
@given(PAYLOADS, st.sampled_from([0, 1, 2]), st.sampled_from(sorted(LEVELS.values())), st.booleans(), st.data())
def test_every_shape_is_read_back_exactly_wherever_the_stream_is_cut(payload, qos, level, shares_topic, data):
    size, content = payload
    topics = SHARED if shares_topic else Topics(publish="plant/{publisher}")
    workload = Workload(publishers=3, payload_bytes=size, payload=content, qos=Qos(qos), topics=topics)
    form = identity_of(workload)
    if shares_topic and form is Identity.ORDER:
        return  # refused by the rules of the study: nothing tells the publishers apart
    blocks, said, following = [], [], [0, 0, 0]
    senders = st.integers(0, 0 if qos == 2 else 2)  # at QoS 2 the identifiers of a broker would be its own
    for publisher, count in data.draw(st.lists(st.tuples(senders, st.integers(1, 9)), max_size=8)):
        first = following[publisher]
        times = SECOND_NS * 10**9 + np.arange(first, first + count)
        messages = messages_by(workload, publisher, level=level)
        blocks.append(built(messages, first, times))
        sizes = np.broadcast_to(messages.payload_bytes(first, count), count).tolist()
        is_timed = form in (Identity.FULL, Identity.TEXT)
        said += [
            (publisher, first + k, int(times[k]) if is_timed else UNKNOWN_NS, sizes[k]) for k in range(count)
        ]  # fmt: skip
        following[publisher] += count
    stream = b"".join(blocks)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))

    plain = Parser(level).feed(stream)
    rows = walked(workload, stream, cuts, level=level)

    assert [len(packet.payload) for packet in plain] == [size for *_, size in said]
    assert [packet.topic for packet in plain] == [expand(topics.publish, publisher=number) for number, *_ in said]
    assert rows == said
    assert sum(size for *_, size in said) == published_bytes(workload, dict(enumerate(following)), seed=1)


@pytest.mark.parametrize(
    ("size", "topics", "form"),
    [
        (16, SHARED, Identity.FULL), (15, SHARED, Identity.SHORT), (2, SHARED, Identity.SHORT),
        (1, SHARED, Identity.ORDER), (1, Topics(), Identity.SHORT), (0, Topics(), Identity.ORDER),
    ],
)  # fmt: skip
def test_the_smallest_payload_decides_the_form_of_the_identity(size, topics, form):
    assert identity_of(Workload(publishers=3, payload_bytes=size, topics=topics)) is form
    mixed = Payload(mix=((size, 50.0), (500, 50.0)))
    assert identity_of(Workload(publishers=3, payload_bytes=500, payload=mixed, topics=topics)) is form


@pytest.mark.parametrize("size", [1, 2, 3, 5])
def test_short_identities_wrap_and_tell_lost_late_and_repeated_ones(size):
    """1 byte holds 256 numbers: the expected one completes it, after a gap, for a duplicate, for a late one."""
    workload = Workload(payload_bytes=size)
    messages = messages_by(workload, 0)
    order = [*range(600), *range(800, 1000), 999, 990, *range(1000, 1210), 1205, *range(1400, 1500)]
    stream = b"".join(built(messages, seq, [SECOND_NS]) for seq in order)

    assert [seq for _, seq, _, _ in walked(workload, stream, [])] == order


def test_identity_by_order_numbers_each_publisher_s_topic():
    workload = Workload(publishers=2, payload_bytes=0)
    first, second = (built(messages_by(workload, number), 0, [1]) for number in (0, 1))

    rows = walked(workload, first + second + first + Publish("elsewhere", b"").encode(), [])

    assert [row[:2] for row in rows] == [(0, 0), (1, 0), (0, 1), (-1, -1)]


def test_a_text_that_is_not_ours_has_no_identity():
    workload = Workload(payload_bytes=200, payload=Payload(Content.JSON, TEMPLATE))
    text = built(messages_by(workload, 0), 7, [SECOND_NS])
    foreign = [Publish("brokerlab/0", payload).encode() for payload in (b"x" * 300, b"", text[30:60])]

    rows = walked(workload, b"".join(foreign), [])

    assert [row[:2] for row in rows] == [(-1, -1)] * 3


def test_json_messages_are_json_with_the_numbers_in_their_places():
    workload = Workload(publishers=3, payload_bytes=200, payload=Payload(Content.JSON, TEMPLATE))

    packets = Parser().feed(built(messages_by(workload, 2), 99, [12, 10**18]))
    said = [json.loads(packet.payload) for packet in packets]

    assert [(each["seq"], each["at"], each["who"]) for each in said] == [(99, 12, 2), (100, 10**18, 2)]
    assert len({each["value"] for each in said} | {each["more"] for each in said}) == 4
    assert {len(packet.payload) for packet in packets} == {200}


@pytest.mark.parametrize("content", [Content.RANDOM, Content.ZEROS, Content.TEXT])
def test_content_fills_what_the_identity_leaves(content):
    workload = Workload(payload_bytes=3 * LARGE_BYTES, payload=Payload(content))
    (packet,) = Parser().feed(built(messages_by(workload, 0), 0, [1]))
    (again,) = Parser().feed(built(messages_by(workload, 0), 0, [1]))
    filler = packet.payload[16:]

    assert packet == again
    assert len(packet.payload) == 3 * LARGE_BYTES
    assert (set(filler) == {0}) == (content is Content.ZEROS)
    assert filler.isascii() == (content is not Content.RANDOM)


def test_a_large_message_is_sent_from_a_filler_that_all_share():
    messages = messages_by(Workload(payload_bytes=256_000_000), 0)

    pieces = messages.build(0, np.array([1, 2], dtype=np.int64))

    own = sum(len(piece.data) for piece in pieces if len(piece.data) < 100)
    assert own < 100
    assert len({piece.data.obj.ctypes.data for piece in pieces if len(piece.data) > 1_000_000}) == 1
    assert sum(len(piece.data) for piece in pieces) == 2 * messages.largest
    assert sum(piece.stride > 0 for piece in pieces) == 2


def test_shares_of_a_mix_are_kept_and_the_draw_depends_on_seed_and_publisher_alone():
    workload = Workload(payload_bytes=1024, payload=Payload(mix=((64, 90.0), (1024, 10.0))), publishers=2)
    drawn = messages_by(workload, 0).payload_bytes(0, 100_000)

    assert abs((drawn == 64).mean() - 0.9) < 0.005
    assert (messages_by(workload, 0).payload_bytes(50, 100) == drawn[50:150]).all()
    assert (messages_by(workload, 1).payload_bytes(0, 100_000) != drawn).any()
    assert (messages_by(workload, 0, seed=2).payload_bytes(0, 100_000) != drawn).any()
