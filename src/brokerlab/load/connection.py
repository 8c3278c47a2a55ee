"""Opening and closing the connection of one client, with its times."""

import socket
from dataclasses import dataclass, field

from brokerlab.errors import RunError
from brokerlab.load.alarm import now_ns
from brokerlab.load.packets import CONNACK_REASONS, Connect, Disconnect, MalformedPacketError, Packet, SubAck, Subscribe
from brokerlab.load.parser import Parser
from brokerlab.load.spec import Client

KEEP_ALIVE_S = 60
_CONNACK_ACCEPTED = 0


@dataclass(slots=True)
class SessionLog:
    """Events of clients' sessions, as rows of record.schemas.SESSIONS."""

    node: str
    rows: list[dict[str, object]] = field(default_factory=list)

    def add(
        self, client: Client, event: str, *,
        began_ns: int | None = None, qos: int | None = None, code: int | None = None,
    ) -> None:  # fmt: skip
        """Notes an event that happens now; `began_ns` is when the client asked for it."""
        at_ns = now_ns()
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


def connect(client: Client, host: str, port: int, *, timeout_s: float, log: SessionLog) -> socket.socket:
    """A connection with an accepted CONNECT and a clean session; it blocks until `set_ready`."""
    began = now_ns()
    try:
        sock = socket.create_connection((host, port), timeout=timeout_s)
    except OSError as problem:
        raise RunError(f"{client.name}: no connection to {host}:{port}: {problem}") from problem
    try:
        log.add(client, "tcp", began_ns=began)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        answer = _ask(sock, Connect(client.name, keep_alive_s=KEEP_ALIVE_S), client)
        code = getattr(answer, "return_code", None)
        log.add(client, "connack", began_ns=began, code=code)
        _require_accepted(client, answer, code)
    except BaseException:
        sock.close()
        raise
    return sock


def _require_accepted(client: Client, answer: Packet, code: int | None) -> None:
    if code != _CONNACK_ACCEPTED:
        reason = CONNACK_REASONS.get(code or 0, f"it answered {answer}")
        raise RunError(f"{client.name}: the broker refused the connection: {reason}")


def subscribe(client: Client, sock: socket.socket, *, qos: int, log: SessionLog) -> int:
    """The QoS that the broker granted, or 128 where it refused the subscription."""
    began = now_ns()
    answer = _ask(sock, Subscribe(1, ((client.topic, qos),)), client)
    if not isinstance(answer, SubAck) or len(answer.return_codes) != 1:
        raise RunError(f"{client.name}: the broker answered SUBSCRIBE with {answer}")
    granted = answer.return_codes[0]
    log.add(client, "suback", began_ns=began, qos=granted, code=granted)
    return granted


def disconnect(client: Client, sock: socket.socket, *, log: SessionLog) -> None:
    """Says goodbye and closes; a broker that was faster is as good."""
    try:
        sock.setblocking(True)
        sock.settimeout(2)
        sock.sendall(Disconnect().encode())
        log.add(client, "disconnect")
    except OSError as problem:
        log.add(client, f"disconnect failed: {problem.strerror}", code=problem.errno)
    finally:
        sock.close()


def _ask(sock: socket.socket, question: Packet, client: Client) -> Packet:
    """Sends a packet and reads the one that answers it, and not a byte more: the rest belongs to the compiled walk."""
    name = type(question).__name__.upper()
    parser = Parser()
    try:
        sock.sendall(question.encode())
        answers: list[Packet] = []
        while not answers:
            byte = sock.recv(1)
            if not byte:
                raise RunError(f"{client.name}: the broker closed the connection after {name}")
            answers = parser.feed(byte)
    except (OSError, MalformedPacketError) as problem:
        raise RunError(f"{client.name}: no answer to {name}: {problem}") from problem
    return answers[0]
