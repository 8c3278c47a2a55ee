"""The idle role: clients that connect and keep alive, and nothing else; what they cost the broker is the question."""

import time
from collections.abc import MutableSequence

from brokerlab.load import connection
from brokerlab.load.alarm import now_ns
from brokerlab.load.attending import Attending
from brokerlab.load.connection import Session
from brokerlab.load.opening import connect_facts
from brokerlab.load.outbox import Outbox
from brokerlab.load.packets import MalformedPacketError, PingResp
from brokerlab.load.parser import Parser
from brokerlab.load.resting import Rest
from brokerlab.load.role import Connections, Say
from brokerlab.load.sessionlog import SessionLog
from brokerlab.load.spec import (
    Client,
    Drain,
    Go,
    Progress,
    Stock,
    Stopped,
    Subscribe,
    Subscribed,
    WorkerSpec,
)
from brokerlab.load.stream import Stream

_NOTED = 8  # one ping in so many is recorded with its latency
_BUFFER_BYTES = 4096


class _Idle:
    """One client."""

    __slots__ = ("client", "outbox", "pinged_ns", "stream", "unread")

    def __init__(self, client: Client, stream: Stream) -> None:
        self.client, self.stream, self.outbox = client, stream, Outbox(stream)
        self.pinged_ns = 0  # of the ping that waits for its answer
        self.unread = b""


class Idling(Attending[_Idle]):
    """Implements Role."""

    gather_s, rest = 0.0, Rest.NONE

    def __init__(
        self, spec: WorkerSpec, connections: Connections, log: SessionLog, say: Say,
        _counts: MutableSequence[int], _progress: Progress,
    ) -> None:  # fmt: skip
        super().__init__(spec, connections, log, say, buffer_bytes=_BUFFER_BYTES)
        self._pings = self._pongs = 0
        self._cpu_ns = self._wall_ns = 0

    # -- what the lab asks for ------------------------------------------------------------------------------------

    def subscribe(self, _order: Subscribe) -> None:
        self._say(Subscribed())

    def go(self, _order: Go) -> None:
        self._begin()
        self._cpu_ns, self._wall_ns = -time.process_time_ns(), -now_ns()

    def retime(self, _order: Go) -> None:
        """Goes by no times."""

    def drain(self, _order: Drain) -> None:
        """Nothing is expected."""

    def halt(self) -> None:
        """Nothing is due."""

    def stock(self) -> Stock:
        return Stock(
            cpu_ns=self._cpu_ns + time.process_time_ns(),
            wall_ns=self._wall_ns + now_ns(),
            closed_by_broker=tuple(self._connections.closed_by_broker),
        )

    def close(self) -> Stopped:
        self._cpu_ns += time.process_time_ns()
        self._wall_ns += now_ns()
        away = self._end_openings()
        for each in self._open.values():
            connection.disconnect(each.client, each.stream, log=self._log)
        return Stopped(
            messages=0,
            cpu_ns=max(0, self._cpu_ns),
            wall_ns=max(0, self._wall_ns),
            closed_by_broker=tuple(self._connections.closed_by_broker),
            **connect_facts(self._openings),
            away=away,
            acknowledgements={"pingreq": self._pings, "pingresp": self._pongs},
        )

    # -- what the loop calls --------------------------------------------------------------------------------------

    def tick(self, now: int) -> int | None:
        for fd in self._connections.due_for_ping(now):
            self._open[fd].pinged_ns = now_ns()
            self._pings += 1
            self._ping(fd)
        return self._openings.tick(now) if self._openings else None

    def _attended(self, session: Session) -> _Idle:
        return _Idle(session.client, session.stream)

    def _heard(self, _fd: int, each: _Idle, data: bytes, arrived_ns: int) -> None:
        """Takes PINGRESPs; anything else ends the connection, as it does for everybody."""
        each.unread = self._take(each, each.unread + data, arrived_ns)

    def _take(self, each: _Idle, data: bytes, arrived_ns: int) -> bytes:
        """Reads all whole packets; the rest."""
        answer = PingResp().encode()
        while data.startswith(answer):
            data = data[len(answer) :]
            self._pongs += 1
            if self._pongs % _NOTED == 1:
                self._log.add(each.client, "pingresp", began_ns=each.pinged_ns, at_ns=arrived_ns)
        if len(data) >= len(answer):
            raise ConnectionAbortedError(f"the broker sent {_described(data)}, which has no place here")
        return data


def _described(data: bytes) -> str:
    for level in (4, 5):
        try:
            return str(Parser(level).feed(data)[0])
        except (MalformedPacketError, IndexError):
            continue
    return f"a packet of type {data[0] >> 4}"
