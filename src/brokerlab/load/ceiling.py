"""How fast one publisher can build and hand over messages: the load's own path, without schedule and without rows.

It calls what the publishing role calls (build, outbox, socket, acknowledgements), in blocks as large as a role's.
What a worker adds to that, the schedule and the record, is measured with real workers (lab/calibrate.py).
"""

import select
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from brokerlab.errors import RunError
from brokerlab.load import connection
from brokerlab.load.alarm import now_ns
from brokerlab.load.messages import messages_of
from brokerlab.load.opening import open_one
from brokerlab.load.publisher import Publisher
from brokerlab.load.rows import PublicationRows
from brokerlab.load.sessionlog import SessionLog
from brokerlab.load.spec import WorkerSpec
from brokerlab.study.values import SessionKind

_BLOCK = 3_000  # messages; 64-byte payloads make 256 KiB of them
_BUFFER_BYTES = 1 << 18
_ANSWER_S = 5.0
_SETTLE_S = 10.0


@dataclass(frozen=True, slots=True)
class Ceiling:
    """What one publisher reached."""

    messages: int
    wall_ns: int
    cpu_ns: int
    began_ns: int  # on the monotonic clock


class _NoRows(PublicationRows):
    """Takes rows and keeps none."""

    def __init__(self) -> None:
        """Needs no writer."""

    def add(self, *_: object) -> None: ...


def send_ceiling(spec: WorkerSpec, *, seconds: float) -> Ceiling:
    """Lets the first client of `spec` send for so long as fast as it goes, then waits for every acknowledgement."""
    client, log = spec.clients[0], SessionLog(spec.node)
    session = open_one(client, spec, timeout_s=_ANSWER_S, log=log)
    publisher = Publisher(
        client,
        session.stream,
        messages_of(client, spec.workload, seed=spec.seed, level=session.level, aliases=session.aliases),
        qos=spec.workload.qos,
        rows=_NoRows(),
        level=session.level,
        receive_maximum=min(session.receive_maximum, spec.workload.schedule.inflight or session.receive_maximum),
    )
    if spec.workload.clients.session is SessionKind.PERSISTENT:
        publisher.keep_session()
    try:
        with select.epoll() as epoll:
            epoll.register(session.stream.fileno(), select.EPOLLIN)
            return _send(publisher, epoll, int(seconds * 1e9))
    finally:
        connection.disconnect(client, session.stream, log=log)


def _send(publisher: Publisher, epoll: select.epoll, duration_ns: int) -> Ceiling:
    buffer = bytearray(_BUFFER_BYTES)
    view, releases = np.frombuffer(buffer, dtype=np.uint8), np.empty(_BUFFER_BYTES, dtype=np.uint8)
    block = min(_BLOCK, publisher.block, max(1, publisher.most_in_flight // 4))
    cpu_ns, began_ns = time.process_time_ns(), now_ns()
    end_ns = began_ns + duration_ns
    while (now := now_ns()) < end_ns or publisher.in_flight:
        if now > end_ns + _SETTLE_S * 1e9:
            raise RunError(f"{publisher.in_flight} messages were not acknowledged within {_SETTLE_S:g} s")
        room = 0 if publisher.is_blocked or now >= end_ns else publisher.room()
        if room >= block:
            publisher.send(np.full(block, now, dtype=np.int64))
        else:
            _wait(publisher, epoll, buffer, view, releases)
        publisher.record()
    return Ceiling(publisher.following, now_ns() - began_ns, time.process_time_ns() - cpu_ns, began_ns)


def _wait(
    publisher: Publisher,
    epoll: select.epoll,
    buffer: bytearray,
    view: NDArray[np.uint8],
    releases: NDArray[np.uint8],
) -> None:
    """Waits until the socket takes or brings something, and does it."""
    epoll.modify(publisher.stream.fileno(), select.EPOLLIN | (select.EPOLLOUT if publisher.is_blocked else 0))
    for _, event in epoll.poll(0.1):
        if event & select.EPOLLOUT:
            publisher.push()
        if event & ~select.EPOLLOUT:
            publisher.read(buffer, view, releases)
