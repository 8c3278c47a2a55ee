"""The subscribing role beside a broker that is a bare socket for each of its clients."""

import select
import socket
import threading
from contextlib import ExitStack, contextmanager

from brokerlab.load.alarm import now_ns
from brokerlab.load.packets import ConnAck, SubAck
from brokerlab.load.role import Connections
from brokerlab.load.sessionlog import SessionLog
from brokerlab.load.spec import Client, Connect, Connected, Progress, Subscribe, Subscribed, WorkerSpec
from brokerlab.load.subscribing import Subscribing

HOST = "127.0.0.1"


@contextmanager
def subscribed_at(workload, folder, counts, *, subscribers=1):
    """A role with its subscribers, what drives it, and the broker's ends of its connections."""
    with socket.create_server((HOST, 0)) as server, select.epoll() as epoll, ExitStack() as ends:
        clients = tuple(Client(number, f"s{number}", "t") for number in range(subscribers))
        spec = WorkerSpec(
            node="subscribers/0", index=0, host=HOST, port=server.getsockname()[1], clients=clients,
            workload=workload, fan_out=subscribers, seed=1, run=folder,
        )  # fmt: skip
        log = SessionLog(spec.node)
        said = []
        role = Subscribing(spec, Connections(epoll, log), log, said.append, counts, Progress((), (0,), (1,), 2))
        accepted = []
        broker = threading.Thread(target=lambda: accepted.extend(greet(server, workload.qos, subscribers)))
        broker.start()
        role.connect(Connect())
        drive(role, epoll, lambda: Connected() in said)
        role.subscribe(Subscribe())
        drive(
            role,
            epoll,
            lambda: any(isinstance(each, Subscribed) and each.granted[0].codes == (workload.qos,) for each in said),
        )
        broker.join()
        for end in accepted:
            ends.enter_context(end)
        yield role, lambda is_done, *, pause_s=0.0: drive(role, epoll, is_done, pause_s=pause_s), accepted


def drive(role, epoll, is_done, *, pause_s=0.0):
    """Does the worker's part: calls the role as its loop does, with a pause before each look if one is given."""
    deadline = now_ns() + 60_000_000_000  # a machine may be busy
    while not is_done():
        assert now_ns() < deadline
        role.tick(now_ns())
        watched = role.watch(pause_s) if pause_s else None
        for fd, event in role.ready_together(epoll.poll(0.05) if watched is None else watched):
            role.ready(fd, event)


def greet(server, qos, subscribers):
    ends = [server.accept()[0] for _ in range(subscribers)]
    for end in ends:
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end.recv(4096)
        end.sendall(ConnAck().encode())
    for end in ends:
        end.recv(4096)
        end.sendall(SubAck(1, (qos,)).encode())
    return ends
