"""WebSocket frames, made and taken at random places, beside a plain reading of RFC 6455 and beside another library."""

import hashlib
import os
import random
import socket
import threading
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from websockets.sync.server import serve

from brokerlab.load.spec import Entrance
from brokerlab.load.stream import TcpStream, Wait, read_some, send_all, shake_hands, stream_over
from brokerlab.load.websocket import BAD, CONTROL, DRY, FULL, WebSocketStream, accept_of, framed, state_of, take_frames
from brokerlab.study.values import Transport

pytestmark = pytest.mark.unit
DEADLINE_S = 20.0


def deadline():
    return time.monotonic() + DEADLINE_S


def frame(kind, payload, *, is_last=True, key=b""):
    """A server's frame as section 5.2 draws it; with a key that of a client."""
    size, mask = len(payload), 0x80 if key else 0
    length = (
        bytes([mask | size])
        if size < 126
        else bytes([mask | 126]) + size.to_bytes(2, "big")
        if size < 65536
        else bytes([mask | 127]) + size.to_bytes(8, "big")
    )
    body = bytes(byte ^ key[place % 4] for place, byte in enumerate(payload)) if key else payload
    return bytes([(0x80 if is_last else 0) | kind]) + length + key + body


def unmasked(data):
    """(kind, payload) of each frame of a client, read byte by byte."""
    frames, at = [], 0
    while at < len(data):
        kind, size = data[at] & 15, data[at + 1] & 127
        assert data[at] & 0xF0 == 0x80
        assert data[at + 1] & 0x80
        at += 2
        if size >= 126:
            width = 2 if size == 126 else 8
            size, at = int.from_bytes(data[at : at + width], "big"), at + width
        key, at = data[at : at + 4], at + 4
        frames.append((kind, bytes(byte ^ key[place % 4] for place, byte in enumerate(data[at : at + size]))))
        at += size
    return frames


@st.composite
def conversations(draw, key=b""):
    """Frames of a server, or of a client with this key, and the bytes of MQTT and the control frames that they hold."""
    raw, mqtt, controls, is_open = b"", b"", [], False
    for _ in range(draw(st.integers(0, 12))):
        if draw(st.integers(0, 3)) == 0:
            kind, payload = draw(st.sampled_from([9, 10])), draw(st.binary(max_size=125))
            raw += frame(kind, payload, key=key)
            controls.append((kind, payload))
            continue
        payload = os.urandom(draw(st.sampled_from([0, 1, 7, 125, 126, 127, 3000, 65535, 65536])))
        is_last = draw(st.booleans())
        raw += frame(0 if is_open else 2, payload, is_last=is_last, key=key)
        mqtt += payload
        is_open = not is_last
    return raw, mqtt, controls


KEY = b"\x01\x80\xfe\x7f"


@settings(max_examples=150, deadline=None)
@given(conversations(), st.randoms(use_true_random=False))
def test_frames_cut_anywhere_give_the_same_bytes(conversation, chance):
    take_and_check(*conversation, chance)


@settings(max_examples=50, deadline=None)
@given(conversations(KEY), st.randoms(use_true_random=False))
def test_frames_of_clients_cut_anywhere_give_the_same_bytes(conversation, chance):
    take_and_check(*conversation, chance, key=KEY)


def take_and_check(raw, mqtt, controls, chance, *, key=b""):
    state, got, seen, rest = state_of(masked=bool(key)), b"", [], b""
    while raw or rest:
        cut = chance.choice([1, 2, 3, 10, 130, 5000, len(raw)])
        piece, raw = rest + raw[:cut], raw[cut:]
        buffer, at, why = np.frombuffer(bytearray(piece), dtype=np.uint8), 0, FULL
        while why in (FULL, CONTROL):
            out = np.zeros(chance.choice([1, 2, 100, 70_000]), dtype=np.uint8)
            at, used, why = take_frames(buffer, len(piece), at, out, state)
            got += out[:used].tobytes()
            assert why != BAD
            if why == CONTROL:
                begin, size = at + 2 + len(key), piece[at + 1] & 127
                end = begin + size
                seen += unmasked(piece[at:end]) if key else [(piece[at] & 15, piece[begin:end])]
                at = end
        assert why == DRY
        rest = piece[at:]
        if not raw and rest:
            pytest.fail("the end of a frame was not taken")

    assert got == mqtt
    assert seen == controls


@pytest.mark.parametrize(
    "raw",
    [
        bytes([0x82, 0x81, 1, 2, 3, 4, 5]),  # masked, as only clients do
        bytes([0xC2, 0]),  # an extension that nobody agreed on
        frame(1, b"text"),
        frame(0, b"continues nothing"),
        frame(2, b"begins", is_last=False) + frame(2, b"begins again"),
        frame(9, b"a ping in fragments", is_last=False),
        bytes([0x89, 126, 0, 126]),  # a control frame that is too long
        bytes([0x83, 0]),  # a kind that does not exist
        bytes([0x8B, 0]),
        bytes([0x82, 127]) + b"\xff" * 8,  # longer than a length can be
    ],
)
def test_frames_that_are_not_allowed_are_refused(raw):
    out, state = np.zeros(100, dtype=np.uint8), state_of(masked=False)

    _, _, why = take_frames(np.frombuffer(bytearray(raw), dtype=np.uint8), len(raw), 0, out, state)

    assert why == BAD


def test_a_server_refuses_frames_without_a_mask():
    raw, out = frame(2, b"plain"), np.zeros(100, dtype=np.uint8)

    _, _, why = take_frames(np.frombuffer(bytearray(raw), dtype=np.uint8), len(raw), 0, out, state_of(masked=True))

    assert why == BAD


@pytest.mark.parametrize("size", [0, 1, 3, 4, 7, 8, 9, 125, 126, 65535, 65536, 300_001])
def test_mask_covers_every_length(size):
    payload = random.Random(size).randbytes(size)

    made, head = framed(memoryview(payload))

    assert unmasked(bytes(made)) == [(2, payload)]
    assert head == len(made) - size


def test_key_of_the_standard_is_accepted_as_the_standard_says():
    assert accept_of("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


@pytest.fixture
def wires():
    """A stream whose handshake is done, and the server's bare socket."""
    ours, theirs = socket.socketpair()
    theirs.settimeout(DEADLINE_S)
    with ours, theirs:
        stream = WebSocketStream(TcpStream(ours), host="h:1", path="/mqtt", protocol="3.1.1")
        assert stream.shake() is Wait.READ
        theirs.sendall(answer_to(theirs.recv(4096)))
        shake_hands(stream, deadline())
        yield stream, theirs


def answer_to(request, *, protocol="mqtt", status="101 Switching Protocols", accept=None):
    key = request.decode().split("Sec-WebSocket-Key: ")[1].split("\r\n")[0]
    lines = (
        f"HTTP/1.1 {status}",
        "upgrade: WebSocket",
        "Connection: keep-alive, Upgrade",
        f"Sec-WebSocket-Accept: {accept or accept_of(key)}",
        f"Sec-WebSocket-Protocol: {protocol}",
    )
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def test_block_is_one_frame_and_counts_as_it_leaves(wires):
    stream, theirs = wires
    stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    payload, left, got = os.urandom(200_000), None, b""
    left = memoryview(payload)
    counts = []
    while left:
        try:
            counts.append(stream.send(left))
            left = left[counts[-1] :]
        except BlockingIOError:
            got += theirs.recv(65536)
            mqtt_in_kernel_at_most = max(0, len(got) - 14)
            assert sum(counts) >= mqtt_in_kernel_at_most  # what arrived was counted before
    while len(got) < len(payload) + 14:
        got += theirs.recv(65536)

    assert len(counts) > 1
    assert sum(counts) == len(payload)
    assert unmasked(got) == [(2, payload)]


def test_ping_is_answered_between_frames_and_close_is_the_end(wires):
    stream, theirs = wires
    theirs.sendall(frame(9, b"are you there?") + frame(2, b"abc") + frame(10, b"") + frame(8, b"\x03\xe8bye") + b"junk")

    assert read_some(stream, 100, deadline()) == b"abc"
    assert stream.has_more
    assert read_some(stream, 100, deadline()) == b""
    assert unmasked(theirs.recv(4096)) == [(10, b"are you there?"), (8, b"\x03\xe8")]


def test_frames_behind_the_answer_and_behind_a_small_buffer_are_not_lost():
    ours, theirs = socket.socketpair()
    theirs.settimeout(DEADLINE_S)
    with ours, theirs:
        stream = WebSocketStream(TcpStream(ours), host="h:1", path="/", protocol="3.1")
        assert stream.shake() is Wait.READ
        request = theirs.recv(4096)
        assert b"Sec-WebSocket-Protocol: mqttv3.1\r\n" in request
        theirs.sendall(answer_to(request, protocol="mqttv3.1") + frame(2, b"123") + frame(2, b"4567", is_last=False))
        shake_hands(stream, deadline())

        got = [read_some(stream, 2, deadline()) for _ in range(4)]

    assert got == [b"12", b"34", b"56", b"7"]


def test_time_is_that_of_the_last_byte_unless_more_of_it_came(wires):
    stream, theirs = wires
    stream.stamp()
    exact = []
    for raw in (frame(2, b"ab"), frame(2, b"cd") + frame(2, b"ef")[:1], frame(2, b"ef")[1:]):
        theirs.sendall(raw)
        read_some(stream, 100, deadline())
        exact.append(stream.is_exact)

    assert exact == [True, False, True]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"status": "404 Not Found"}, "answered with 'HTTP/1.1 404 Not Found'"),
        ({"accept": hashlib.sha1(b"").hexdigest()}, "does not belong to our key"),
        ({"protocol": "chat"}, "speaks chat on WebSocket, not mqtt"),
    ],
)
def test_answer_that_is_not_ours_is_refused(change, message):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        stream = WebSocketStream(TcpStream(ours), host="h:1", path="/", protocol="5.0")
        assert stream.shake() is Wait.READ
        theirs.sendall(answer_to(theirs.recv(4096), **change))

        with pytest.raises(ConnectionAbortedError, match=message):
            shake_hands(stream, deadline())


def test_another_implementation_understands_us_and_we_it():
    """The package websockets echoes what it gets, in fragments and with pings in between."""

    def echo(peer):
        for message in peer:
            peer.ping()
            peer.send([message[:1000], message[1000:], b""])

    with serve(echo, "127.0.0.1", 0, subprotocols=["mqtt"], compression=None, max_size=None) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            port = server.socket.getsockname()[1]
            sock = socket.create_connection(("127.0.0.1", port))
            stream = WebSocketStream(TcpStream(sock), host=f"127.0.0.1:{port}", path="/mqtt", protocol="3.1.1")
            shake_hands(stream, deadline())
            sent = [os.urandom(size) for size in (1, 125, 70_000, 900_000)]
            got = b""
            for block in sent:
                send_all(stream, block, deadline())
                while len(got) < sum(map(len, sent[: sent.index(block) + 1])):
                    got += read_some(stream, 65_536, deadline())
            stream.finish()
            stream.close()
        finally:
            server.shutdown()
            thread.join()

    assert got == b"".join(sent)
    assert [stage.event for stage in stream.stages] == ["websocket"]


@pytest.mark.parametrize(("host", "said"), [("127.0.0.1", b"127.0.0.1:8083"), ("::1", b"[::1]:8083")])
def test_an_address_of_ipv6_stands_in_brackets(host, said):
    """RFC 7230 section 5.4 with RFC 3986 section 3.2.2."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        stream = stream_over(
            ours, Entrance(Transport.WS), host=host, port=8083, certificate=None, protocol="3.1.1"
        )  # fmt: skip
        assert stream.shake() is Wait.READ

        assert b"\r\nHost: " + said + b"\r\n" in theirs.recv(4096)
