"""Thousands of publishers that are lent to a compiled loop: what it sends and records is what each would by itself."""

import os
import socket
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from filling_rig import received
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brokerlab.load.account import Account
from brokerlab.load.alarm import now_ns
from brokerlab.load.crowd import FEW_PUBLISHERS
from brokerlab.load.crowding import Crowding
from brokerlab.load.messages import messages_of
from brokerlab.load.packets import LEVELS
from brokerlab.load.publisher import Publisher
from brokerlab.load.spec import Client, Go, WorkerSpec
from brokerlab.load.stream import TcpStream
from brokerlab.load.turns import Turns
from brokerlab.study.values import Qos, Topics, Workload

pytestmark = pytest.mark.unit

PAIRS = 4
CHUNK = 3  # intended times come in pieces
DEAF = -1


class Rows:
    """As PublicationRows, with few rows, of which it keeps all."""

    def __init__(self, size):
        self.size, self.seen = size, []
        self._fresh()

    def _fresh(self):
        self._columns, self._used = np.zeros((6, self.size), dtype=np.int64), 0

    def columns(self):
        return self._columns, self._used

    def filled(self, until):
        self.seen += self._columns[:, self._used : until].T.tolist()
        self._used = until
        if until == self.size:
            self._fresh()

    def add(self, publisher, first_seq, intended_ns, sent_ns, acked_ns, payload_bytes):
        for place, (intended, sent) in enumerate(zip(intended_ns.tolist(), sent_ns.tolist(), strict=True)):
            self.seen.append([publisher, first_seq + place, intended, sent, 0, payload_bytes])

    def of(self, number):
        """What is recorded of one publisher, but for the times of sending."""
        return [(seq, due, acked, size) for publisher, seq, due, _, acked, size in self.seen if publisher == number]


class Rig:
    """Publishers over socket pairs, as a worker has them, by file descriptor."""

    def __init__(self, stack, *, protocol="3.1.1", count=PAIRS, rows=7, payload_bytes=40, **workload):
        self.rows, self.open, self.ends = Rows(rows), {}, {}
        self.account = Account(Go(0, 0, 1 << 62))
        self.crowding = Crowding(self.rows)
        value = Workload(payload_bytes=payload_bytes, qos=Qos(0), protocol=protocol, **workload)
        for number in range(count):
            ours, theirs = (stack.enter_context(end) for end in socket.socketpair())
            client = Client(number, f"p{number}", f"plant/{10**number}")  # topics of different length
            messages = messages_of(client, value, seed=1, level=LEVELS[protocol])
            publisher = Publisher(client, TcpStream(ours), messages, qos=0, rows=self.rows, level=LEVELS[protocol])
            self.open[ours.fileno()], self.ends[ours.fileno()] = publisher, theirs

    def follow(self, schedules):
        for publisher, times in zip(self.open.values(), schedules, strict=True):
            chunks = [times[at : at + CHUNK] for at in range(0, len(times), CHUNK)]
            publisher.follow(iter([np.array(chunk, dtype=np.int64) for chunk in chunks]))

    def lend(self):
        return [self.crowding.lend(each) for each in self.open.values() if each.next_due_ns() is not None]

    def go(self, until_ns=0, *, ears=DEAF):
        """Once, and again for those whose times at hand were over; who could not send."""
        stuck = []
        while True:
            left, _ = self.crowding.send_due(until_ns, ears=ears, account=self.account)
            for fd in left:
                taken, at_ns = self.crowding.seen_to(fd, self.open[fd])
                if taken is not None:
                    stuck.append((fd, taken, at_ns))
                elif self.open[fd].next_due_ns() is not None:
                    assert self.crowding.lend(self.open[fd])
            first_ns = self.crowding.first_ns()
            if not left and (first_ns is None or first_ns > now_ns() or ears != DEAF):
                return stuck

    def states(self):
        return [
            (each.following, each.in_flight, each.unsent, each.room(), each.next_due_ns(), each.wire_bytes)
            for each in self.open.values()
        ]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    protocol=st.sampled_from(["3.1.1", "5.0"]),
    gaps=st.lists(st.lists(st.integers(0, 40), max_size=20), min_size=PAIRS, max_size=PAIRS),
    back=st.lists(st.integers(0, PAIRS - 1), max_size=3),
)
def test_bytes_rows_and_states_are_those_of_one_by_one(protocol, gaps, back):
    with ExitStack() as stack:
        lent, alone = (Rig(stack, protocol=protocol) for _ in range(2))
        for rig in (lent, alone):
            rig.follow([np.cumsum(each).tolist() for each in gaps])
        lent.lend()
        for place in back:  # taken back and lent again: what the heap had of it counts once
            publisher = list(lent.open.values())[place]
            lent.crowding.take_back(publisher)
            if publisher.next_due_ns() is not None:
                lent.crowding.lend(publisher)
        assert lent.go() == []
        for publisher in alone.open.values():
            while publisher.next_due_ns() is not None:
                publisher.send_due(1 << 40)
            publisher.record(everything=True)

        assert lent.crowding.lent == 0
        assert lent.states() == alone.states()
        assert [received(end) for end in lent.ends.values()] == [received(end) for end in alone.ends.values()]
        assert [lent.rows.of(number) for number in range(PAIRS)] == [alone.rows.of(number) for number in range(PAIRS)]
        assert [each.record(everything=True) for each in lent.open.values()] == [None] * PAIRS


def test_nothing_leaves_before_it_is_due_and_all_of_it_until_the_end():
    with ExitStack() as stack:
        rig = Rig(stack, rows=100)
        begin_ns = now_ns()
        rig.follow([[begin_ns + (10 * step + number) * 300_000 for step in range(4)] for number in range(PAIRS)])
        rig.lend()
        end_ns = begin_ns + 20 * 300_000
        while now_ns() < end_ns:
            assert rig.go(end_ns) == []
        rig.go(now_ns())
        sent = [(due, sent_ns) for _, _, due, sent_ns, _, _ in rig.rows.seen]

        assert all(due <= sent_ns for due, sent_ns in sent)
        assert {due for due, _ in sent} >= {begin_ns + place * 300_000 for place in (0, 1, 2, 3, 10, 11, 12, 13)}
        assert [due for due, _ in sent] == sorted(due for due, _ in sent)
        assert sum(count for _, count in rig.account.facts()["lag_buckets"]) == len(sent)


def test_who_listens_is_called_at_once():
    with ExitStack() as stack:
        rig = Rig(stack)
        rig.follow([[now_ns() + 10**12]] * PAIRS)
        rig.lend()
        ear, mouth = os.pipe()
        os.write(mouth, b"x")
        left, sent = rig.crowding.send_due(now_ns() + 10**11, ears=ear, account=rig.account)
        os.close(ear)
        os.close(mouth)

        assert (left, sent, rig.crowding.lent) == ([], 0, PAIRS)


def test_who_is_taken_back_sends_nothing_until_it_is_lent_again():
    with ExitStack() as stack:
        rig = Rig(stack)
        rig.follow([[1, 2, 3, 4]] * PAIRS)
        rig.lend()
        first = next(iter(rig.open.values()))
        rig.crowding.take_back(first)
        rig.go()

        assert [each.following for each in rig.open.values()] == [0, 4, 4, 4]
        assert received(rig.ends[first.stream.fileno()]) == b""
        rig.crowding.take_back(first)  # once more: nothing happens
        assert rig.crowding.lend(first)
        rig.go()
        assert first.following == 4


def test_entries_that_count_no_more_do_not_fill_the_heap():
    with ExitStack() as stack:
        rig = Rig(stack)
        rig.follow([[1, 2]] * PAIRS)
        for _ in range(2000):
            rig.lend()
            for publisher in rig.open.values():
                rig.crowding.take_back(publisher)
        rig.lend()
        rig.go()

        assert [each.following for each in rig.open.values()] == [2] * PAIRS
        assert [[seq for seq, *_ in rig.rows.of(number)] for number in range(PAIRS)] == [[0, 1]] * PAIRS


def test_part_of_a_message_waits_for_the_socket():
    with ExitStack() as stack:
        rig = Rig(stack, payload_bytes=60_000, count=2)
        alone = Rig(stack, payload_bytes=60_000, count=2)
        for each in (rig, alone):
            each.follow([list(range(1, 31))] * 2)
        rig.lend()
        stuck = rig.go()
        got = dict.fromkeys(rig.open, b"")
        for fd, taken, at_ns in stuck:
            publisher = rig.open[fd]
            assert taken < publisher.messages.largest
            if taken > 0:
                publisher.queue_next(taken, at_ns)
                assert publisher.is_blocked
        for fd, publisher in rig.open.items():
            while publisher.has_more or len(got[fd]) < publisher.wire_bytes:
                got[fd] += received(rig.ends[fd])
                publisher.push()
                publisher.send_due(1 << 40)
        expected = []
        for publisher, end in zip(alone.open.values(), alone.ends.values(), strict=True):
            expected.append(b"")
            while publisher.has_more or len(expected[-1]) < publisher.wire_bytes:
                publisher.send_due(1 << 40)
                expected[-1] += received(end)
                publisher.push()

        assert len(stuck) == 2
        assert list(got.values()) == expected


def test_connection_that_is_over_is_left_with_its_message_still_due():
    with ExitStack() as stack:
        rig = Rig(stack)
        rig.follow([[1, 2]] * PAIRS)
        rig.lend()
        gone = next(iter(rig.open))
        rig.ends[gone].close()
        ((fd, taken, _),) = rig.go()

        assert (fd, taken) == (gone, -1)
        assert [each.following for each in rig.open.values()] == [0, 2, 2, 2]
        assert rig.open[gone].next_due_ns() == 1
        with pytest.raises(BrokenPipeError):
            rig.open[gone].send_due(500)


def test_who_is_out_of_the_ordinary_is_not_lent():
    with ExitStack() as stack:
        mixed = Rig(stack, topics=Topics("t/{topic}", "t/#", count=3))
        mixed.follow([[1]] * PAIRS)
        usual = Rig(stack)
        usual.follow([[1]] * PAIRS)
        prepared, blocked, lasting, plain = usual.open.values()
        prepared.prepare()
        blocked.outbox.put(memoryview(b"x"))
        lasting.keep_session()

        assert mixed.lend() == [False] * PAIRS
        assert usual.lend() == [False, False, False, True]
        assert plain.stream.fileno() in usual.crowding


def turns_of(rig, counts):
    """Of a worker of more than a thousand publishers, of which those of the rig have their connections."""
    clients = tuple(Client(number, f"p{number}", "t") for number in range(FEW_PUBLISHERS + 1))
    spec = WorkerSpec("publishers/0", 0, "127.0.0.1", 1883, clients, Workload(qos=Qos(0)), 1.0, 1, Path("unused"))

    def record(publisher, *, least=None):
        if (done := publisher.record(least=least)) is not None:
            rig.account.take(done)

    def do(fd, action):
        action()
        record(rig.open[fd])
        turns.enter(fd, rig.open[fd])

    turns = Turns(spec, rig.open, rig.rows, counts, do=do, look_after=turns_look_after, record=record)
    return turns


def turns_look_after(_fd, _publisher):
    raise AssertionError("only those who acknowledge are sent for together")


def test_who_does_not_watch_is_woken_for_those_who_are_lent():
    with ExitStack() as stack:
        rig, counts = Rig(stack, rows=100), [0]
        turns = turns_of(rig, counts)
        due_ns = now_ns() + 50_000_000
        rig.follow([[due_ns + number] for number in range(PAIRS)])
        for fd, publisher in rig.open.items():
            turns.enter(fd, publisher)

        assert turns.wake_ns(now_ns()) is None
        assert turns.lent_ns(now_ns()) == due_ns
        turns.send_due(now_ns(), rig.account)
        assert counts == [0]
        while turns:
            turns.send_due(now_ns(), rig.account)
        assert counts == [PAIRS]
        assert (turns.lent_ns(now_ns()), bool(turns)) == (None, False)


def test_who_went_by_itself_for_a_while_is_recorded_and_lent_again():
    with ExitStack() as stack:
        rig, counts = Rig(stack, rows=100), [0]
        turns = turns_of(rig, counts)
        rig.follow([[1, 2, 3, 4, 5]] * PAIRS)
        for fd, publisher in rig.open.items():
            publisher.send_next(1)
            turns.enter(fd, publisher)

        assert turns.is_lending
        assert turns.wake_ns(now_ns()) is None
        while turns:
            turns.send_due(now_ns(), rig.account)
        assert [[seq for seq, *_ in rig.rows.of(number)] for number in range(PAIRS)] == [[0, 1, 2, 3, 4]] * PAIRS
        assert counts == [4 * PAIRS]


def test_what_fell_due_while_a_publisher_was_away_is_no_lag_of_ours():
    with ExitStack() as stack:
        rig, counts = Rig(stack, rows=100), [0]
        turns = turns_of(rig, counts)
        long_ago_ns = now_ns() - 10**10
        rig.follow([[long_ago_ns, long_ago_ns + 1, now_ns() + 50_000_000]] * PAIRS)
        for fd, publisher in rig.open.items():
            publisher.join(publisher.stream, receive_maximum=65_535, is_resumed=False)
            turns.enter(fd, publisher)

        assert not turns.is_lending
        turns.send_due(now_ns(), rig.account)
        assert turns.is_lending
        while turns:
            turns.send_due(now_ns(), rig.account)
        for number in range(PAIRS):
            assert [seq for seq, *_ in rig.rows.of(number)] == [0, 1, 2]
        assert rig.account.waited == 2 * PAIRS
        assert rig.account.lag.max_ns < 5 * 10**9


def test_who_has_fallen_far_behind_still_hears_what_else_there_is():
    with ExitStack() as stack:
        count, each, most = 20, 150, 2_048  # so many of each fit into its socket
        rig = Rig(stack, count=count, rows=20_000, payload_bytes=16)
        for publisher in rig.open.values():
            publisher.follow(iter([np.arange(1, each + 1)]))
        rig.lend()
        sent = [rig.crowding.send_due(now_ns(), ears=DEAF, account=rig.account)[1] for _ in range(2)]

        assert sent == [most, count * each - most]
        assert [len(rig.rows.of(number)) for number in range(count)] == [each] * count
