"""What went over the wire between clients of a run and a real broker: a relay that keeps every byte it passes on."""

import contextlib
import selectors
import socket
import threading
from dataclasses import dataclass, field

from brokerlab.load.packets import Connect
from brokerlab.load.parser import Parser

ASKED, ANSWERED = "client", "broker"  # who said it


@dataclass
class Overheard:
    """One connection: (who, packet) in the order in which they passed by; the client's CONNECT is the first."""

    said: list = field(default_factory=list)
    parsers: dict = field(default_factory=lambda: {ASKED: Parser(5), ANSWERED: Parser(5)})

    def note(self, who, data):
        self.said += [(who, packet) for packet in self.parsers[who].feed(data)]

    def of(self, who, kind):
        return [packet for speaker, packet in self.said if speaker == who and isinstance(packet, kind)]

    @property
    def client_id(self):
        (connect,) = self.of(ASKED, Connect)
        return connect.client_id


@contextlib.contextmanager
def overheard(port):
    """Gives the port to connect to instead, and the connections so far."""
    connections, over = [], threading.Event()
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server, selectors.DefaultSelector() as selector:
        selector.register(server, selectors.EVENT_READ)
        thread = threading.Thread(target=_relay, args=(server, port, selector, connections, over))
        thread.start()
        try:
            yield server.getsockname()[1], connections
        finally:
            over.set()
            thread.join(10)
            assert not thread.is_alive()


def _relay(server, port, selector, connections, over):
    ends = {}  # each socket with its other end, who speaks there, and the connection
    while not over.is_set():
        for key, _ in selector.select(0.05):
            if key.fileobj is server:
                near, far = server.accept()[0], socket.create_connection(("127.0.0.1", port))
                connections.append(Overheard())
                ends[near], ends[far] = (far, ASKED, connections[-1]), (near, ANSWERED, connections[-1])
                for end in (near, far):
                    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    selector.register(end, selectors.EVENT_READ)
            elif key.fileobj in ends:
                _pass_on(key.fileobj, ends, selector)
    for end in ends:
        end.close()


def _pass_on(end, ends, selector):
    other, who, connection = ends[end]
    try:
        if data := end.recv(1 << 18):
            connection.note(who, data)
            other.sendall(data)
            return
    except ConnectionError:
        data = b""  # a storm closes without a word, and either side may be the first to see it
    for each in (end, other):
        selector.unregister(each)
        each.close()
        del ends[each]
