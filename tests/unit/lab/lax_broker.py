"""A peer that takes everything and keeps almost nothing: what a probe must not call kept.

It speaks 3.1.1 and 5.0, closes after DISCONNECT only, says that every session is present, answers QoS 2 with
PUBACK, delivers at the QoS of the subscription with all flags as they came and without properties, matches wildcards
carelessly, stores nothing, publishes every will, and ignores keep-alive, UNSUBSCRIBE and all that is malformed.
"""

import contextlib
import re
import socket
import threading


def length_of(number):
    assert number < 128 * 128
    return bytes((number,)) if number < 128 else bytes((number % 128 | 0x80, number // 128))


def packet(head, body):
    return bytes((head,)) + length_of(len(body)) + body


class LaxBroker:
    """Use it as a context manager."""

    def __init__(self):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._clients = []
        self._lock = threading.Lock()

    def __enter__(self):
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()
        return self

    def __exit__(self, *_):
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # or the thread in accept() holds it open
        self._accepting.join(5)
        self._listener.close()
        for client in self._clients:
            with contextlib.suppress(OSError):
                client.sock.shutdown(socket.SHUT_RDWR)
        for client in self._clients:
            if client.thread.ident is not None:
                client.thread.join(5)
            client.sock.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client = _Client(self, self._listener.accept()[0])
                self._clients.append(client)
                self.started(client)

    def started(self, client):
        client.thread.start()

    def route(self, flags, topic, payload):
        with self._lock:
            for client in self._clients:
                client.deliver(flags, topic, payload)


class _Client:
    def __init__(self, broker, sock):
        self._broker, self.sock = broker, sock
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self._level, self._will, self._filters, self._sent = 4, None, {}, 0

    def serve(self):
        with contextlib.suppress(OSError), self.sock.makefile("rb") as stream:
            while (head := stream.read(1)) and head[0] >> 4 != 14:
                size, shift = 0, 0
                while True:
                    digit = (stream.read(1) or b"\0")[0]
                    size |= (digit & 0x7F) << shift
                    shift += 7
                    if not digit & 0x80 or shift > 21:
                        break
                self._take(head[0] >> 4, head[0] & 15, stream.read(min(size, 100_000)))
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        if self._will:
            self._broker.route(0, *self._will)

    def deliver(self, flags, topic, payload):
        qos = next((qos for pattern, qos in self._filters.items() if pattern.fullmatch(topic)), None)
        if qos is None:
            return
        self._sent += 1
        body = len(topic).to_bytes(2, "big") + topic + (self._sent.to_bytes(2, "big") if qos else b"")
        flags = flags & 9 if qos else flags & 1
        with contextlib.suppress(OSError):
            self.sock.sendall(packet(0x30 | flags | qos << 1, body + self._none() + payload))

    def _none(self):
        return b"\0" if self._level == 5 else b""

    def _take(self, kind, flags, body):
        with contextlib.suppress(IndexError):
            match kind:
                case 1:
                    self._connect(body)
                case 3:
                    self._publish(flags, body)
                case 6:
                    self.sock.sendall(packet(0x70, body[:2]))
                case 8:
                    self._subscribe(body)
                case 10:
                    self.sock.sendall(packet(0xB0, body[:2] + self._none() + self._none()))
                case 12:
                    self.sock.sendall(b"\xd0\x00")

    def _connect(self, body):
        self._level = 5 if body[6] == 5 else 4
        self.sock.sendall(packet(0x20, b"\x01\x00" + self._none()))
        if body[7] & 4:
            at = 10 + (1 + body[10] if self._level == 5 else 0)
            at += 2 + int.from_bytes(body[at : at + 2], "big")
            at += 1 + body[at] if self._level == 5 else 0
            size = int.from_bytes(body[at : at + 2], "big")
            self._will = (body[at + 2 : at + 2 + size], body[at + 4 + size :])

    def _publish(self, flags, body):
        size, qos = int.from_bytes(body[:2], "big"), flags >> 1 & 3
        topic, at = body[2 : 2 + size], 2 + size
        if qos:
            self.sock.sendall(packet(0x40, body[at : at + 2]))
            at += 2
        at += 1 + body[at] if self._level == 5 else 0
        self._broker.route(flags, topic, body[at:])

    def _subscribe(self, body):
        at, codes = 2 + (1 + body[2] if self._level == 5 else 0), b""
        while at < len(body):
            size = int.from_bytes(body[at : at + 2], "big")
            written, qos = body[at + 2 : at + 2 + size], body[at + 2 + size] & 3
            careless = re.escape(written).replace(rb"\+", b".*").replace(rb"\#", b".*")
            self._filters[re.compile(careless, re.DOTALL)] = min(qos, 2)
            codes += bytes((min(qos, 2),))
            at += 3 + size
        self.sock.sendall(packet(0x90, body[:2] + self._none() + codes))
