"""The compiled walks of a bridge, held against the plain packets of load/packets.py, and its log after a stop."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokerlab.bridge.log import Log
from brokerlab.bridge.outwalks import build, measure, release, walk_answers
from brokerlab.bridge.walks import (
    COLUMNS,
    DONE,
    FREE,
    NEED_MORE,
    RECEIVED,
    TWO,
    UPSTREAM,
    emit,
    walk_inlet,
)
from brokerlab.errors import UserError
from brokerlab.load.packets import PubAck, PubComp, Publish, PubRec, PubRel, encode_length
from brokerlab.load.parser import Parser
from brokerlab.load.properties import USER_PROPERTY, encode_properties

pytestmark = pytest.mark.unit
MARK = (USER_PROPERTY, ("brokerlab-bridge", "there"))
OWN_MARK = (USER_PROPERTY, ("brokerlab-bridge", "here"))


def as_bytes(*properties):
    return np.frombuffer(bytearray(encode_properties(properties, encode_length)), dtype=np.uint8)


class Walks:
    """A route without sockets: bytes in, bytes out."""

    def __init__(self, path, *, level=4, lanes=1, has_memory=False):
        self.log = Log(path, lanes=lanes, has_memory=has_memory, route={})
        self.level, self.lanes = level, lanes
        self.rows = np.zeros((64, COLUMNS), dtype=np.int64)
        self.chunk_of, self.live = np.zeros(65_536, dtype=np.int64), np.zeros(4096, dtype=np.int64)
        self.tally = np.zeros(4, dtype=np.int64)
        self.cursor = 0

    def hear(self, *packets, memory=None):
        """What the lanes send for packets of the source, and what the source is answered at once."""
        data = b"".join(packet.encode(self.level) for packet in packets)
        buffer = np.frombuffer(bytearray(data), dtype=np.uint8)
        answers, up, down = np.zeros(4096, dtype=np.uint8), self.log.upstream, self.log.downstream
        at, count, used, why = walk_inlet(
            buffer, buffer.size, 0, self.level, self.rows, 64, self.lanes, as_bytes(MARK), self.log.memory, 1, up,
            down, answers, self.tally,
        )  # fmt: skip
        assert (at, why) == (buffer.size, NEED_MORE)
        sent = [self._built(buffer, count, lane, memory or self.log.memory) for lane in range(self.lanes)]
        return sent, Parser(self.level).feed(answers[:used].tobytes())

    def _built(self, buffer, count, lane, memory):
        mark = as_bytes(OWN_MARK) if self.level >= 5 else np.zeros(0, dtype=np.uint8)
        found, size = measure(self.rows, count, lane, self.level, mark.size)
        out = np.zeros(size, dtype=np.uint8)
        ends, ids = np.zeros(found, dtype=np.int64), np.zeros(found, dtype=np.int64)
        self.cursor = build(
            buffer, buffer, self.rows, count, lane, self.level, 7, mark, self.cursor, memory, 1, self.log.upstream,
            self.log.downstream, 0, self.chunk_of, out, ends, ids,
        )  # fmt: skip
        assert list(ends[-1:]) == ([size] if found else [])
        return Parser(self.level).feed(out.tobytes())

    def answer(self, *packets, lane=0):
        """What the lane answers the target."""
        data = np.frombuffer(bytearray(b"".join(each.encode(self.level) for each in packets)), dtype=np.uint8)
        out, through = np.zeros(4096, dtype=np.uint8), np.zeros(64, dtype=np.int64)
        refused = np.zeros(64, dtype=np.int64)
        _, used, done, no, _ = walk_answers(
            data, data.size, 0, lane, self.log.upstream, self.log.downstream, out, through, refused
        )
        release(through, done, lane, self.log.downstream, self.chunk_of, self.live)
        return Parser(self.level).feed(out[:used].tobytes()), refused[:no].tolist()

    def acknowledged(self):
        out = np.zeros(4096, dtype=np.uint8)
        return Parser(self.level).feed(out[: emit(self.log.upstream, out)].tobytes())


@pytest.fixture
def walks(tmp_path):
    return Walks(tmp_path / "up.log")


MESSAGES = st.lists(
    st.builds(
        Publish,
        topic=st.sampled_from(["a", "a/b", "ä/" + "x" * 130]),
        payload=st.binary(max_size=300),
        qos=st.just(0),
        retain=st.booleans(),
        properties=st.sampled_from([(), ((USER_PROPERTY, ("k", "v" * 120)),), ((1, 1), (2, 60))]),
    ),
    max_size=8,
)


@settings(max_examples=40, deadline=None)
@given(messages=MESSAGES, level=st.sampled_from([4, 5]), lanes=st.integers(1, 3))
def test_messages_pass_as_they_are_with_a_mark_each_over_its_lane(tmp_path_factory, messages, level, lanes):
    walks = Walks(tmp_path_factory.mktemp("walks") / "up.log", level=level, lanes=lanes)

    sent, _ = walks.hear(*messages)

    assert sorted((each.topic, each.payload, each.retain) for lane in sent for each in lane) == sorted(
        (each.topic, each.payload, each.retain) for each in messages
    )
    for lane in sent:
        expected = [each for each in messages if each.topic in {message.topic for message in lane}]
        assert [each.payload for each in lane] == [each.payload for each in expected], "in order"
        if level == 5:
            assert [each.properties for each in lane] == [(*each.properties, OWN_MARK) for each in expected]


def test_the_source_is_acknowledged_after_the_target_and_in_order(walks):
    (sent,), _ = walks.hear(Publish("a", b"1", 1, 7), Publish("b", b"2", 1, 9))
    first, second = (each.packet_id for each in sent)

    walks.answer(PubAck(second))
    assert walks.acknowledged() == []
    walks.answer(PubAck(first))
    assert walks.acknowledged() == [PubAck(7), PubAck(9)]


def test_qos_2_is_received_when_the_target_has_completed(walks):
    (sent,), _ = walks.hear(Publish("a", b"1", 2, 7))

    assert walks.answer(PubRec(sent[0].packet_id))[0] == [PubRel(sent[0].packet_id)]
    assert walks.acknowledged() == []
    walks.answer(PubComp(sent[0].packet_id))
    assert walks.acknowledged() == [PubRec(7)]
    assert walks.hear(PubRel(7))[1] == [PubComp(7)]
    assert walks.log.upstream.state[7] == FREE


def test_a_repetition_of_what_is_on_its_way_is_not_sent_again(walks):
    walks.hear(Publish("a", b"1", 1, 7), Publish("a", b"2", 2, 8))

    assert walks.hear(Publish("a", b"1", 1, 7, dup=True), Publish("a", b"2", 2, 8, dup=True))[0] == [[]]


def test_an_identifier_that_the_source_gave_to_another_message_is_a_new_one(walks):
    (old,), _ = walks.hear(Publish("a", b"1", 1, 7))
    (new,), _ = walks.hear(Publish("a", b"2", 1, 7))

    walks.answer(PubAck(old[0].packet_id))
    assert walks.acknowledged() == []
    walks.answer(PubAck(new[0].packet_id))
    assert walks.acknowledged() == [PubAck(7)]


def test_what_the_target_refuses_is_told_and_stays(tmp_path):
    walks = Walks(tmp_path / "up.log", level=5)
    (sent,), _ = walks.hear(Publish("a", b"1", 1, 7), Publish("a", b"1", 2, 8))

    _, refused = walks.answer(PubAck(sent[0].packet_id, 0x97), PubRec(sent[1].packet_id, 0x87))

    assert refused == [sent[0].packet_id << 8 | 0x97, sent[1].packet_id << 8 | 0x87]
    assert walks.acknowledged() == []


def test_a_message_with_the_targets_mark_goes_no_further_and_is_acknowledged(tmp_path):
    walks = Walks(tmp_path / "up.log", level=5)

    (sent,), _ = walks.hear(Publish("a", b"1", 1, 7, properties=(OWN_MARK, MARK)), Publish("a", b"2", 2, 8))

    assert [each.payload for each in sent] == [b"2"]
    assert walks.acknowledged() == [PubAck(7)]


def test_what_was_published_by_the_other_direction_is_known_again_as_often_as_it_was(tmp_path):
    there, back = Walks(tmp_path / "there.log"), Walks(tmp_path / "back.log", has_memory=True)
    there.hear(Publish("a", b"1"), Publish("a", b"1"), memory=back.log.memory)

    (sent,), _ = back.hear(*[Publish("a", b"1")] * 3, Publish("a", b"2"))

    assert [each.payload for each in sent] == [b"1", b"2"], "the third was published by somebody else"


@pytest.mark.parametrize("level", [4, 5])
def test_after_a_stop_a_message_of_qos_2_keeps_its_identifier(tmp_path, level):
    path = tmp_path / "up.log"
    (sent,), _ = Walks(path, level=level).hear(Publish("a", b"1", 2, 7), Publish("a", b"2", 2, 8))

    again = Walks(path, level=level)
    (resent,), _ = again.hear(Publish("a", b"2", 2, 8, dup=True), Publish("a", b"3", 2, 9))

    assert again.log.unfinished == 2
    assert (resent[0].packet_id, resent[0].dup) == (sent[1].packet_id, True)
    assert resent[1].packet_id not in (sent[0].packet_id, sent[1].packet_id)


def test_after_a_stop_what_the_target_has_is_not_sent_again(tmp_path):
    path = tmp_path / "up.log"
    before = Walks(path)
    (sent,), _ = before.hear(Publish("a", b"1", 2, 7), Publish("a", b"2", 2, 8))
    before.answer(PubRec(sent[0].packet_id), PubRec(sent[1].packet_id), PubComp(sent[1].packet_id))

    again = Walks(path)
    assert list(again.log.upstream.state[7:9]) == [TWO, DONE]
    assert again.log.downstream.state[0, sent[0].packet_id] == RECEIVED
    (resent,), _ = again.hear(Publish("a", b"1", 2, 7, dup=True), Publish("a", b"2", 2, 8, dup=True))
    again.answer(PubComp(sent[0].packet_id))

    assert resent == []
    assert again.acknowledged() == [PubRec(7), PubRec(8)]


def test_a_completion_from_before_a_stop_says_nothing_of_a_new_message(tmp_path):
    """The target completes once more what was through; the source has used its identifier again meanwhile."""
    path = tmp_path / "up.log"
    before = Walks(path)
    (sent,), _ = before.hear(Publish("a", b"1", 2, 7))
    before.answer(PubRec(sent[0].packet_id))
    before.log.upstream.state[7] = DONE  # killed here, before our identifier was freed

    again = Walks(path)
    again.hear(Publish("a", b"1", 2, 7, dup=True))
    again.acknowledged()
    again.hear(PubRel(7))
    (new,), _ = again.hear(Publish("a", b"new", 2, 7))
    again.answer(PubComp(sent[0].packet_id))

    assert again.log.upstream.state[7] == TWO
    assert again.acknowledged() == []
    assert new[0].packet_id != sent[0].packet_id


def test_a_session_that_the_source_lost_leaves_nobody_to_acknowledge(walks):
    (sent,), _ = walks.hear(Publish("a", b"1", 1, 7))
    walks.log.forget_upstream()

    walks.answer(PubAck(sent[0].packet_id))

    assert walks.acknowledged() == []
    assert walks.rows[0, UPSTREAM] == 7


def test_a_log_of_another_route_is_refused_while_it_has_unfinished_messages(tmp_path):
    path = tmp_path / "up.log"
    Walks(path).hear(Publish("a", b"1", 2, 7))

    with pytest.raises(UserError, match="has 1 unfinished messages of the route as it was"):
        Log(path, lanes=2, has_memory=False, route={})
    (tmp_path / "other.log").write_bytes(b"")
    assert Log(tmp_path / "other.log", lanes=2, has_memory=False, route={}).unfinished == 0
