"""TLS over real sockets, beside Python's own blocking server: what is counted, what waits, how it ends."""

import contextlib
import os
import socket
import ssl
import threading
import time

import pytest

from brokerlab.errors import RunError
from brokerlab.lab.certificates import Authority, keep
from brokerlab.load.client import Client, Login
from brokerlab.load.spec import Entrance
from brokerlab.load.stream import Wait, await_ready, read_some, send_all, shake_hands
from brokerlab.load.streaming import RefusedError
from brokerlab.load.tls import TlsStream, context_for
from brokerlab.study.values import Transport

pytestmark = pytest.mark.unit
HOST = "127.0.0.1"


def deadline():
    return time.monotonic() + 20


@pytest.fixture(scope="module")
def papers(tmp_path_factory):
    """Certificates of one authority: its own, a server's (with a context) and a client's."""
    folder, authority = tmp_path_factory.mktemp("papers"), Authority()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keep(folder, "server.pem", *authority.broker(HOST)))
    context.load_verify_locations(keep(folder, "authority.pem", authority.pem))
    return context, folder / "authority.pem", keep(folder, "client.pem", *authority.client("c1"))


@pytest.fixture
def wires(papers):
    """A stream whose handshake is done, and the server's blocking end."""
    context, authority, _ = papers
    with socket.create_server((HOST, 0)) as server:
        ends = []

        def serve():
            raw, _ = server.accept()
            ends.append(context.wrap_socket(raw, server_side=True))

        thread = threading.Thread(target=serve)
        thread.start()
        stream = TlsStream(socket.create_connection(server.getsockname()), context_for(authority, None), HOST)
        shake_hands(stream, deadline())
        thread.join()
        ends[0].settimeout(20)
        with ends[0]:
            yield stream, ends[0]
        stream.close()


def test_handshake_says_what_was_agreed_and_how_long_it_took(wires):
    stream, theirs = wires

    (stage,) = stream.stages

    assert stage.event == "tls"
    assert stage.at_ns > stage.began_ns > 0
    assert stage.detail == f"{theirs.version()}, {theirs.cipher()[0]}"
    assert stream.shake() is Wait.NOTHING


def test_bytes_count_when_their_whole_record_is_in_the_kernel(wires):
    stream, theirs = wires
    stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 8192)
    theirs.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
    payload = os.urandom(300_000)
    left, counts, got = memoryview(payload), [], []

    def take():
        while sum(map(len, got)) < len(payload):
            got.append(theirs.recv(65_536))

    blocked = 0
    while not blocked:  # until nothing fits any more: all that counts is in the kernel's hands
        try:
            counts.append(stream.send(left))
            left = left[counts[-1] :]
        except BlockingIOError:
            blocked = sum(counts)
    assert blocked < len(payload)
    assert blocked % 16_384 == 0
    thread = threading.Thread(target=take)
    thread.start()
    while left:
        try:
            left = left[stream.send(left) :]
        except BlockingIOError:
            await_ready(stream, Wait.WRITE, deadline())
    thread.join()

    assert b"".join(got) == payload


def test_records_behind_a_small_buffer_are_told_of_though_epoll_does_not(wires):
    stream, theirs = wires
    payload = os.urandom(40_000)
    theirs.sendall(payload)
    got = read_some(stream, 1_000, deadline())
    assert stream.has_more

    while len(got) < len(payload):
        got += read_some(stream, 1_000, deadline())

    assert got == payload
    with pytest.raises(BlockingIOError):
        stream.read(memoryview(bytearray(10)))
    assert not stream.has_more


def test_record_that_comes_in_pieces_is_waited_for(papers):
    """One byte at a time."""
    context, authority, _ = papers
    ours, between = socket.socketpair()
    between.settimeout(20)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context.wrap_bio(incoming, outgoing, server_side=True)
    stream = TlsStream(ours, context_for(authority, None), HOST)
    is_done = False
    while stream.shake() is not Wait.NOTHING or not is_done:
        incoming.write(between.recv(65_536))
        with contextlib.suppress(ssl.SSLWantReadError):
            server.do_handshake()
            is_done = True
        between.sendall(outgoing.read())
    server.write(b"hello")
    *pieces, last = outgoing.read()
    buffer = memoryview(bytearray(100))
    for piece in pieces:
        between.send(bytes([piece]))
        with pytest.raises(BlockingIOError):
            stream.read(buffer)
    between.send(bytes([last]))

    count, _ = stream.read(buffer)

    assert bytes(buffer[:count]) == b"hello"
    stream.close()
    between.close()


def test_last_bytes_before_the_end_are_given_out_and_then_the_end(wires):
    stream, theirs = wires
    theirs.sendall(b"the last")

    def end():
        with contextlib.suppress(OSError, ValueError):  # it waits for our own goodbye, which may come too late
            theirs.unwrap()

    thread = threading.Thread(target=end)
    thread.start()

    assert read_some(stream, 100, deadline()) == b"the last"
    assert read_some(stream, 100, deadline()) == b""
    stream.finish()
    stream.close()
    thread.join()


def test_stamps_of_the_kernel_are_kept(wires):
    stream, theirs = wires
    stream.stamp()
    theirs.sendall(b"x")
    arrived_before_ns = time.monotonic_ns() + 50_000_000
    time.sleep(0.2)

    await_ready(stream, Wait.READ, deadline())
    _, arrived_ns = stream.read(memoryview(bytearray(10)))

    assert stream.is_exact
    assert arrived_ns < arrived_before_ns


def test_server_of_another_authority_is_refused_with_the_reason(papers, tmp_path):
    context, _, _ = papers
    stranger = keep(tmp_path, "stranger.pem", Authority("stranger").pem)
    with socket.create_server((HOST, 0)) as server:

        def serve():
            raw, _ = server.accept()
            with raw, pytest.raises(ssl.SSLError, match="UNKNOWN_CA"):
                context.wrap_socket(raw, server_side=True)

        thread = threading.Thread(target=serve)
        thread.start()
        stream = TlsStream(socket.create_connection(server.getsockname()), context_for(stranger, None), HOST)

        with pytest.raises(RefusedError, match=r"the broker's certificate is refused: (self-signed|unable)"):
            shake_hands(stream, deadline())
        stream.close()
        thread.join()


def test_clients_certificate_is_shown(papers):
    _, authority, certificate = papers
    asking = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    asking.load_cert_chain(authority.with_name("server.pem"))
    asking.load_verify_locations(authority)
    asking.verify_mode = ssl.CERT_REQUIRED
    seen = []
    with socket.create_server((HOST, 0)) as server:

        def serve():
            raw, _ = server.accept()
            with asking.wrap_socket(raw, server_side=True) as end:
                seen.append(dict(pair for (pair,) in end.getpeercert()["subject"]))
                end.recv(10)

        thread = threading.Thread(target=serve)
        thread.start()
        stream = TlsStream(socket.create_connection(server.getsockname()), context_for(authority, certificate), HOST)
        shake_hands(stream, deadline())
        send_all(stream, b"x", deadline())
        thread.join()
        stream.close()

    assert seen == [{"commonName": "c1"}]


def test_a_blocking_client_says_what_it_cannot_use(tmp_path):
    """A file without a certificate, a name that no host can have."""
    (tmp_path / "ca.pem").write_text("nothing")
    login = Login(Entrance(Transport.TLS, authority=tmp_path / "ca.pem"))
    with socket.create_server((HOST, 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(RunError, match=rf"^{HOST}:{port}: the handshake failed: .*certificate"):
            Client(HOST, port, login=login)

    with pytest.raises(RunError, match=r"^mqtt\.\.example\.org:1883: connecting failed: "):
        Client("mqtt..example.org", 1883)
