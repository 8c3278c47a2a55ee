"""Many publishers at once, over real sockets: the compiled loop does what the ordinary way does, or leaves it to it."""

import socket
from contextlib import ExitStack

import numpy as np
import pytest
from filling_rig import received
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brokerlab.load.alarm import now_ns
from brokerlab.load.crowd import Crowd
from brokerlab.load.messages import messages_of
from brokerlab.load.packets import LEVELS, PubAck
from brokerlab.load.publisher import Publisher
from brokerlab.load.spec import Client
from brokerlab.load.stream import TcpStream
from brokerlab.study.values import Qos, Topics, Workload

pytestmark = pytest.mark.unit

PAIRS = 5
CHUNK = 3  # intended times come in pieces


class Rows:
    def __init__(self):
        self.seen = []

    def add(self, publisher, first_seq, intended_ns, sent_ns, acked_ns, payload_bytes):
        self.seen.append((publisher, first_seq, intended_ns.tolist(), (sent_ns > 0).tolist(), payload_bytes))


class Rig:
    """Publishers over socket pairs, as a worker has them, by file descriptor."""

    def __init__(self, stack, *, qos, protocol="3.1.1", payload_bytes=40, count=PAIRS, **workload):
        self.rows, self.crowd, self.open, self.ends = Rows(), Crowd(), {}, {}
        value = Workload(payload_bytes=payload_bytes, qos=Qos(qos), protocol=protocol, **workload)
        for number in range(count):
            ours, theirs = (stack.enter_context(end) for end in socket.socketpair())
            theirs.settimeout(2)
            client = Client(number, f"p{number}", f"plant/{10**number}")  # topics of different length
            messages = messages_of(client, value, seed=1, level=LEVELS[protocol])
            publisher = Publisher(client, TcpStream(ours), messages, qos=qos, rows=self.rows, level=LEVELS[protocol])
            self.open[ours.fileno()], self.ends[ours.fileno()] = publisher, theirs
            self.crowd.add(publisher)

    def follow(self, schedules):
        for publisher, times in zip(self.open.values(), schedules, strict=True):
            chunks = [times[at : at + CHUNK] for at in range(0, len(times), CHUNK)]
            publisher.follow(iter([np.array(chunk, dtype=np.int64) for chunk in chunks]))

    def send_together(self, until_ns):
        sent, left = self.crowd.send(list(self.open), self.open, until_ns)
        for fd in left:
            self.open[fd].send_due(until_ns)
        return [fd for fd, _ in sent], left

    def send_one_by_one(self, until_ns):
        for publisher in self.open.values():
            publisher.send_due(until_ns)

    def received(self):
        return [received(end) for end in self.ends.values()]

    def states(self):
        return [
            (each.following, each.in_flight, each.unsent, each.room(), each.next_due_ns(), each.wire_bytes)
            for each in self.open.values()
        ]

    def recorded(self):
        for publisher in self.open.values():
            publisher.record(everything=True)
        return self.rows.seen


def times_of(gaps):
    return np.cumsum(gaps).tolist()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    qos=st.sampled_from([0, 1, 2]),
    protocol=st.sampled_from(["3.1.1", "5.0"]),
    gaps=st.lists(st.lists(st.integers(1, 40), min_size=0, max_size=30), min_size=PAIRS, max_size=PAIRS),
    step=st.integers(5, 60),
)
def test_both_ways_give_the_same_bytes_rows_and_states(qos, protocol, gaps, step):
    with ExitStack() as stack:
        together, one_by_one = (Rig(stack, qos=qos, protocol=protocol) for _ in range(2))
        for rig in (together, one_by_one):
            rig.follow(map(times_of, gaps))
        for until_ns in range(step, 1201, step):
            together.send_together(until_ns)
            one_by_one.send_one_by_one(until_ns)
            assert together.states() == one_by_one.states()

        assert together.received() == one_by_one.received()
        assert together.recorded() == one_by_one.recorded()


def test_one_message_each_goes_through_the_loop_with_the_time_of_its_call():
    with ExitStack() as stack:
        rig = Rig(stack, qos=1)
        rig.follow([[10 + number, 1000] for number in range(PAIRS)])
        before_ns = now_ns()
        sent, left = rig.send_together(500)
        after_ns = now_ns()

        assert (sent, left) == (list(rig.open), [])
        for publisher in rig.open.values():
            intended, released, sent_ns = publisher.record(everything=True)
            assert intended.tolist() == released.tolist()
            assert before_ns <= sent_ns[0] <= after_ns
            assert publisher.is_quiet_since(after_ns + 1)
            assert not publisher.is_quiet_since(before_ns)


def test_who_has_more_to_do_or_is_in_the_way_goes_the_ordinary_way():
    with ExitStack() as stack:
        rig = Rig(stack, qos=1)
        late, full, *others = rig.open
        rig.open[full].most_in_flight = 1
        rig.follow([[1, 2, 3, 999], [1, 999], *([[500, 501, 999]] * (PAIRS - 2))])
        rig.send_together(1)
        rig.open[full].due = np.array([400, 999])

        sent, left = rig.send_together(500)

        assert sent == [*others]
        assert left == [late, full]
        assert [each.following for each in rig.open.values()] == [3, 1, 1, 1, 1]


def test_last_message_goes_with_the_others():
    with ExitStack() as stack:
        rig = Rig(stack, qos=0)
        rig.follow([[10]] * PAIRS)

        assert rig.send_together(500) == (list(rig.open), [])
        assert [each.next_due_ns() for each in rig.open.values()] == [None] * PAIRS


def test_messages_of_another_kind_have_no_seat():
    with ExitStack() as stack:
        rig = Rig(stack, qos=0, topics=Topics("t/{topic}", "t/#", count=3))
        rig.follow([[1, 999]] * PAIRS)

        assert rig.send_together(500) == ([], list(rig.open))
        assert [each.following for each in rig.open.values()] == [1] * PAIRS


def test_part_of_a_message_is_followed_by_the_rest_when_the_socket_takes_it():
    with ExitStack() as stack:
        rig = Rig(stack, qos=1, payload_bytes=60_000, count=2)
        ordinary = Rig(stack, qos=1, payload_bytes=60_000, count=2)
        for publisher in rig.open.values():
            publisher.stream.socket.close()
        pairs = [tcp_pair(stack) for _ in range(2)]
        publishers = list(rig.open.values())
        rig.open = {ours.fileno(): publisher for publisher, (ours, _) in zip(publishers, pairs, strict=True)}
        for publisher, (ours, _) in zip(publishers, pairs, strict=True):
            publisher.join(TcpStream(ours), receive_maximum=65_535, is_resumed=False)
        for each in (rig, ordinary):
            each.follow([[10, 999], [20, 999]])
        got = [b"", b""]

        sent, _ = rig.send_together(500)
        assert sent == list(rig.open)
        assert any(publisher.is_blocked and publisher.unsent == 1 for publisher in publishers)
        while any(publisher.is_blocked for publisher in publishers):
            for place, (_, theirs) in enumerate(pairs):
                got[place] += received(theirs)
                publishers[place].push()
        for place, (_, theirs) in enumerate(pairs):
            theirs.settimeout(2)
            while len(got[place]) < publishers[place].wire_bytes:
                got[place] += theirs.recv(1 << 20)
        ordinary.send_one_by_one(500)

        expected = [b"", b""]
        for place, (publisher, end) in enumerate(zip(ordinary.open.values(), ordinary.ends.values(), strict=True)):
            while publisher.is_blocked or len(expected[place]) < publisher.wire_bytes:
                expected[place] += received(end)
                publisher.push()
        assert got == expected
        assert rig.recorded() == ordinary.recorded()


def tcp_pair(stack):
    """With little room, so that a message does not fit at once."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        ours = socket.socket()
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2048)
        ours.connect(server.getsockname())
        theirs, _ = server.accept()
    return stack.enter_context(ours), stack.enter_context(theirs)


def test_connection_that_is_over_is_left_to_the_ordinary_way_which_says_so():
    with ExitStack() as stack:
        rig = Rig(stack, qos=0)
        rig.follow([[1, 999]] * PAIRS)
        gone = next(iter(rig.open))
        rig.ends[gone].close()

        sent, left = rig.crowd.send(list(rig.open), rig.open, 500)

        assert left == [gone]
        assert [fd for fd, _ in sent] == list(rig.open)[1:]
        assert rig.open[gone].following == 0
        with pytest.raises(BrokenPipeError):
            rig.open[gone].send_due(500)


def test_acknowledgements_are_taken_of_messages_that_went_together():
    with ExitStack() as stack:
        rig = Rig(stack, qos=1)
        rig.follow([[1, 999]] * PAIRS)
        rig.send_together(500)
        buffer, out = bytearray(4096), np.empty(4096, dtype=np.uint8)
        for fd, publisher in rig.open.items():
            rig.ends[fd].sendall(PubAck(1).encode())
            publisher.read(buffer, np.frombuffer(buffer, dtype=np.uint8), out)

        assert [publisher.in_flight for publisher in rig.open.values()] == [0] * PAIRS
        assert next(iter(rig.open.values())).seen.tolist() == [1, 0, 0, 0, 0]
