"""One client's bytes: a non-blocking socket, perhaps inside TLS or WebSocket frames.

What a role does with a connection it does through a Stream, and does not know what lies below it.
"""

import socket
from collections.abc import Sequence
from pathlib import Path

from brokerlab.load import arrival
from brokerlab.load.alarm import now_ns
from brokerlab.load.spec import Client, Entrance, WorkerSpec
from brokerlab.load.streaming import Stage, Stream, Wait, await_ready, read_some, send_all, shake_hands
from brokerlab.load.tls import TlsStream, context_for
from brokerlab.study.address import written_address

__all__ = [
    "Stage",
    "Stream",
    "TcpStream",
    "Wait",
    "await_ready",
    "read_some",
    "send_all",
    "shake_hands",
    "stream_of",
    "stream_over",
]


class TcpStream:
    """MQTT on bare TCP: the socket's own functions, with nothing in between.

    They are called and not kept: as attributes they would take 200 bytes of each of tens of thousands of clients.
    """

    __slots__ = ("has_more", "is_exact", "socket", "stages", "stamps")

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.socket = sock
        self.has_more = False
        self.is_exact = False
        self.stamps: arrival.Stamps | None = None
        self.stages: Sequence[Stage] = ()

    def fileno(self) -> int:
        return self.socket.fileno()

    def send(self, data: memoryview, /) -> int:
        return self.socket.send(data)

    def finish(self) -> None:
        """TCP says it by closing."""

    def close(self) -> None:
        self.socket.close()

    def stamp(self) -> None:
        arrival.ask_for_stamps(self.socket)
        self.stamps, self.is_exact = arrival.Stamps(), True

    def shake(self) -> Wait:
        return Wait.NOTHING

    def read(self, buffer: memoryview, /) -> tuple[int, int]:
        if self.stamps is not None:
            return self.stamps.read(self.socket, buffer)
        return self.socket.recv_into(buffer), now_ns()


def stream_of(sock: socket.socket, spec: WorkerSpec, client: Client) -> Stream:
    """The stream of a client of this worker over a connected socket, which does not block from now on."""
    return stream_over(
        sock,
        spec.entrance,
        host=spec.host,
        port=spec.port,
        certificate=client.certificate,
        protocol=spec.workload.protocol,
    )


def stream_over(
    sock: socket.socket, entrance: Entrance, *, host: str, port: int, certificate: Path | None, protocol: str
) -> Stream:
    """The stream that the broker's entrance asks for; its handshakes are still to be done."""
    stream: Stream = TcpStream(sock)
    if entrance.transport.is_encrypted:
        stream = TlsStream(sock, context_for(entrance.authority, certificate), host)
    if entrance.transport.is_framed:
        from brokerlab.load.websocket import WebSocketStream  # noqa: PLC0415 - loads Numba, which takes a second

        stream = WebSocketStream(stream, host=written_address(host, port), path=entrance.path, protocol=protocol)
    return stream
