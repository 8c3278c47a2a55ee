"""Opening and closing the connection of one client, with its times."""

import socket
import time
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from brokerlab.errors import RunError
from brokerlab.load.alarm import now_ns
from brokerlab.load.packets import (
    LEVELS,
    PROTOCOL_LEVEL,
    REASONS,
    ConnAck,
    Connect,
    Disconnect,
    MalformedPacketError,
    Packet,
    SubAck,
    Subscribe,
    connack_reason,
)
from brokerlab.load.parser import Parser
from brokerlab.load.properties import (
    MAXIMUM_QOS,
    RECEIVE_MAXIMUM,
    SERVER_KEEP_ALIVE,
    described,
    number_of,
)
from brokerlab.load.spec import Client, WorkerSpec
from brokerlab.load.stream import Stream, read_some, send_all, shake_hands, stream_of

KEEP_ALIVE_S = 60
_MOST_IN_FLIGHT = 65_535
_PINGRESP, _DISCONNECT = 13, 14
_GOODBYE_S = 2.0


@dataclass(slots=True)
class SessionLog:
    """Events of clients' sessions, as rows of record.schemas.SESSIONS."""

    node: str
    rows: list[dict[str, object]] = field(default_factory=list)
    agreed: set[str] = field(default_factory=set)  # what the handshakes settled, each noted once

    def add(
        self, client: Client, event: str, *,
        began_ns: int | None = None, at_ns: int | None = None, qos: int | None = None, code: int | None = None,
    ) -> None:  # fmt: skip
        """Notes an event that happens now or at `at_ns`; `began_ns` is when the client asked for it."""
        at_ns = now_ns() if at_ns is None else at_ns
        self.rows.append(
            {
                "client": client.name,
                "node": self.node,
                "event": event,
                "at_ns": at_ns,
                "latency_ns": None if began_ns is None else at_ns - began_ns,
                "granted_qos": qos,
                "reason_code": code,
            }
        )


@dataclass(frozen=True, slots=True)
class Session:
    """An open connection with its accepted CONNECT, and what the broker said of itself in CONNACK."""

    stream: Stream
    level: int  # of the protocol
    receive_maximum: int = _MOST_IN_FLIGHT
    keep_alive_s: int = KEEP_ALIVE_S


def connect(client: Client, spec: WorkerSpec, *, timeout_s: float, log: SessionLog) -> Session:
    """A connection with an accepted CONNECT and a clean session; its stream does not block."""
    level = LEVELS[spec.workload.protocol]
    began = now_ns()
    try:
        sock = socket.create_connection((spec.host, spec.port), timeout=timeout_s)
    except OSError as problem:
        raise RunError(f"{client.name}: no connection to {spec.host}:{spec.port}: {problem}") from problem
    try:
        log.add(client, "tcp", began_ns=began)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        stream = stream_of(sock, spec, client)
        _shake_hands(client, stream, timeout_s=timeout_s, log=log)
        # MQTT 5.0: with a clean start and the session expiry of 0, which is the default, a session ends with its
        # connection, as a clean session does before.
        question = Connect(client.name, KEEP_ALIVE_S, username=client.user, password=client.password)
        answer = _ask(stream, question, client, level=level, timeout_s=timeout_s)
        log.add(client, "connack", began_ns=began, code=getattr(answer, "return_code", None))
        return _session(client, stream, answer, level=level, qos=spec.workload.qos, log=log)
    except BaseException:
        sock.close()
        raise


def note_stages(client: Client, stream: Stream, *, log: SessionLog) -> None:
    """The handshakes of a connection as events, and once for each way that they ended what was agreed on."""
    for stage in stream.stages:
        log.add(client, stage.event, began_ns=stage.began_ns, at_ns=stage.at_ns)
        agreed = f"{stage.event}: {stage.detail}"
        if stage.detail and agreed not in log.agreed:
            log.agreed.add(agreed)
            log.add(client, agreed, at_ns=stage.at_ns)


def _shake_hands(client: Client, stream: Stream, *, timeout_s: float, log: SessionLog) -> None:
    try:
        shake_hands(stream, time.monotonic() + timeout_s)
    except OSError as problem:
        raise RunError(f"{client.name}: the handshake failed: {problem}") from problem
    finally:
        note_stages(client, stream, log=log)


def _session(
    client: Client, stream: Stream, answer: Packet, *, level: int, qos: int, log: SessionLog
) -> Session:  # fmt: skip
    """What the broker's CONNACK allows; RunError where that is less than the run needs."""
    if not isinstance(answer, ConnAck):
        raise RunError(f"{client.name}: the broker answered CONNECT with {answer}")
    if code := answer.return_code:
        reason = connack_reason(level, code)
        raise RunError(f"{client.name}: the broker refused the connection: {reason} (code {code:#04x})")
    if said := answer.properties:
        log.add(client, f"connack properties: {described(said)}")
    highest = number_of(said, MAXIMUM_QOS)
    if highest is not None and qos > highest:
        raise RunError(f"{client.name}: the broker takes QoS {highest} at most, and the run needs QoS {qos}")
    receive_maximum = number_of(said, RECEIVE_MAXIMUM)
    keep_alive_s = number_of(said, SERVER_KEEP_ALIVE)
    return Session(
        stream,
        level,
        _MOST_IN_FLIGHT if receive_maximum is None else receive_maximum,
        KEEP_ALIVE_S if keep_alive_s is None else keep_alive_s,
    )


def subscribe(
    client: Client, stream: Stream, *, qos: int, log: SessionLog, level: int = PROTOCOL_LEVEL, timeout_s: float = 10.0
) -> int:
    """The QoS that the broker granted, or its code from 128 on where it refused the subscription."""
    began = now_ns()
    answer = _ask(stream, Subscribe(1, ((client.topic, qos),)), client, level=level, timeout_s=timeout_s)
    if not isinstance(answer, SubAck) or len(answer.return_codes) != 1:
        raise RunError(f"{client.name}: the broker answered SUBSCRIBE with {answer}")
    granted = answer.return_codes[0]
    log.add(client, "suback", began_ns=began, qos=granted, code=granted)
    return granted


def pass_over(view: NDArray[np.uint8], at: int, *, level: int) -> int:
    """The place after a PINGRESP; anything else that is no message and no acknowledgement ends the connection."""
    kind = int(view[at]) >> 4
    if kind == _PINGRESP and view[at + 1] == 0:
        return at + 2
    if kind == _DISCONNECT and level == 5:
        code = int(view[at + 2]) if view[at + 1] else 0
        raise ConnectionAbortedError(f"the broker disconnected: {REASONS.get(code, 'unknown reason')} ({code:#04x})")
    raise ConnectionAbortedError(f"the broker sent a packet of type {kind}, which has no place here")


def disconnect(client: Client, stream: Stream, *, log: SessionLog) -> None:
    """Says goodbye and closes; a broker that was faster is as good."""
    try:
        send_all(stream, Disconnect().encode(), time.monotonic() + _GOODBYE_S)
        log.add(client, "disconnect")
    except OSError as problem:
        log.add(client, f"disconnect failed: {problem.strerror or problem}", code=problem.errno)
    finally:
        stream.close()


def _ask(stream: Stream, question: Packet, client: Client, *, level: int, timeout_s: float) -> Packet:
    """Sends a packet and reads the one that answers it, and not a byte more: the rest belongs to the compiled walk."""
    name = type(question).__name__.upper()
    parser = Parser(level)
    try:
        deadline = time.monotonic() + timeout_s
        send_all(stream, question.encode(level), deadline)
        answers: list[Packet] = []
        while not answers:
            byte = read_some(stream, 1, deadline)
            if not byte:
                raise RunError(f"{client.name}: the broker closed the connection after {name}")
            answers = parser.feed(byte)
    except (OSError, MalformedPacketError) as problem:
        raise RunError(f"{client.name}: no answer to {name}: {problem}") from problem
    return answers[0]
