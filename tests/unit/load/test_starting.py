"""Publishers that wait for control messages, beside a broker that is a bare socket."""

import select
import socket
import threading

import pytest

from brokerlab.errors import RunError
from brokerlab.load.alarm import now_ns
from brokerlab.load.packets import ConnAck, Connect, PubAck, Publish, SubAck
from brokerlab.load.parser import Parser
from brokerlab.load.publishing import Publishing
from brokerlab.load.role import Connections
from brokerlab.load.roles import role_of
from brokerlab.load.sessionlog import SessionLog
from brokerlab.load.spec import Began, Client, Connected, Go, Progress, Sent, WorkerSpec
from brokerlab.load.spec import Connect as Order
from brokerlab.load.starting import START, Settings, Starting, settings_of
from brokerlab.study.topics import CONTROL_TOPIC
from brokerlab.study.values import Schedule, Start, Workload

pytestmark = pytest.mark.unit
HOST = "127.0.0.1"
MS = 1_000_000
SETTINGS = Settings(rate_per_s=1000.0, warmup_ns=4 * MS, measure_ns=6 * MS)


def spec_of(folder, port=0, *, start=Start.CONTROL, node="publishers/0"):
    workload = Workload(payload_bytes=16, schedule=Schedule(rate_per_s=1), start=start)
    return WorkerSpec(
        node=node, index=0, host=HOST, port=port, clients=(Client(0, "p0", "t"),), workload=workload, fan_out=1,
        seed=1, run=folder,
    )  # fmt: skip


class Rig:
    """A role with one publisher; what it said, and the broker's end of its connections."""

    def __init__(self, folder, server, epoll):
        spec, log = spec_of(folder, server.getsockname()[1]), SessionLog("publishers/0")
        self.epoll, self.said, self.counts, self.stopped = epoll, [], [0, 0, 0], None
        self.role = Starting(
            Publishing, spec, Connections(epoll, log), log, self.said.append, self.counts, Progress((0,), (), (), 2)
        )
        greeting = threading.Thread(target=self._greet, args=(server,))
        greeting.start()
        self.role.connect(Order())
        self.drive(lambda: Connected() in self.said)
        greeting.join()

    def _greet(self, server):
        """The control client comes first, and is subscribed before any publisher connects."""
        self.control, _ = server.accept()
        self.asked = [Parser().feed(self.control.recv(4096))[0]]
        self.control.sendall(ConnAck().encode())
        self.asked += Parser().feed(self.control.recv(4096))
        self.control.sendall(SubAck(1, (1,)).encode())
        self.publisher, _ = server.accept()
        self.asked += Parser().feed(self.publisher.recv(4096))
        self.publisher.sendall(ConnAck().encode())

    def tell(self, *payloads):
        """Sends control messages in one piece, however the client reads them."""
        messages = (Publish(CONTROL_TOPIC, payload, 1, number) for number, payload in enumerate(payloads, 1))
        self.control.sendall(b"".join(message.encode() for message in messages))

    def drive(self, is_done, *, within_ms=10_000):
        """Does the worker's part: calls the role as its loop does, until it is done or the time is up."""
        deadline = now_ns() + within_ms * MS
        while not is_done() and now_ns() < deadline:
            wake_ns = self.role.tick(now_ns())
            wait_ns = 50 * MS if wake_ns is None else max(0, min(wake_ns - now_ns(), 50 * MS))
            for fd, event in self.epoll.poll(wait_ns / 1e9):
                self.role.ready(fd, event)
        return is_done()

    def close(self):
        if self.stopped is None:
            self.stopped = self.role.close()
        return self.stopped

    def heard(self, kind):
        return [each for each in self.said if isinstance(each, kind)]


@pytest.fixture
def rig(tmp_path):
    with socket.create_server((HOST, 0)) as server, select.epoll() as epoll:
        made = Rig(tmp_path, server, epoll)
        with made.control, made.publisher:
            yield made
            made.close()


def test_the_control_client_subscribes_before_the_publishers_connect(rig):
    first, subscription, second = rig.asked

    assert isinstance(first, Connect)
    assert subscription.filters == ((CONTROL_TOPIC, 1),)
    assert second.client_id == "p0"


def test_nothing_is_sent_before_the_start_message(rig):
    held = Go(1, 1, 2)  # long over: a role that went by it would have sent everything
    rig.role.go(held)
    rig.tell(SETTINGS.encode())

    assert not rig.drive(lambda: rig.counts[0], within_ms=100)
    assert rig.said == [Connected()]


def test_the_schedule_is_that_of_the_messages_from_the_start_on(rig):
    rig.role.go(Go(1, 1, 2, number=3))
    before_ns = now_ns()
    rig.tell(SETTINGS.encode(), START)
    assert rig.drive(lambda: rig.heard(Sent))
    stopped = rig.close()

    [began] = rig.heard(Began)
    assert before_ns <= began.start_ns <= stopped.first_ns
    assert rig.heard(Sent) == [Sent(((0, 10),), 3)]  # 10 ms at 1000/s, whatever the worker was made for
    acknowledged = [packet for packet in Parser().feed(rig.control.recv(4096)) if isinstance(packet, PubAck)]
    assert [packet.packet_id for packet in acknowledged] == [1, 2]
    assert len(published(rig)) == 10


def published(rig):
    rig.publisher.settimeout(5)
    data = b""
    while chunk := rig.publisher.recv(65_536):
        data += chunk
    return [packet for packet in Parser().feed(data) if isinstance(packet, Publish)]


def test_a_start_that_is_here_before_the_order_counts_from_when_it_came(rig):
    rig.tell(SETTINGS.encode(), START)
    assert not rig.drive(lambda: rig.heard(Began), within_ms=100)
    ordered_ns = now_ns()
    rig.role.go(Go(1, 1, 2))

    [began] = rig.heard(Began)
    assert began.start_ns < ordered_ns
    assert rig.drive(lambda: rig.heard(Sent) == [Sent(((0, 10),))])


def test_a_start_without_settings_is_refused(rig):
    rig.role.go(Go(1, 1, 2))
    rig.tell(START)

    with pytest.raises(RunError, match="the start message came before the message that says how fast and how long"):
        rig.drive(lambda: rig.heard(Began))


def test_a_control_connection_that_the_broker_ends_is_told(rig):
    rig.control.close()

    with pytest.raises(RunError, match="the broker closed the connection"):
        rig.drive(lambda: False)


@pytest.mark.parametrize("payload", [b"", b"[]", b"7", b'"start"', b"\xff", b'{"rate_per_s": "x"}'])
def test_a_message_that_is_no_control_message_is_refused(payload):
    with pytest.raises(RunError, match="a control message is none of ours"):
        settings_of(payload)


def test_control_messages_read_back_equal():
    assert settings_of(SETTINGS.encode()) == SETTINGS
    assert settings_of(START) is None


@pytest.mark.parametrize(
    ("node", "start", "waits"),
    [
        ("publishers/0", Start.CONTROL, True),
        ("loops/0", Start.CONTROL, True),
        ("subscribers/0", Start.CONTROL, False),
        ("publishers/0", Start.CLOCK, False),
    ],
)
def test_only_publishers_wait_for_control_messages(tmp_path, node, start, waits):
    made = role_of(spec_of(tmp_path, node=node, start=start))

    assert (getattr(made, "func", made) is Starting) == waits
