"""MQTT inside TLS: the socket is read and written here, OpenSSL works on memory (ssl.MemoryBIO).

So the kernel's arrival stamps are kept, one system call brings or takes many records, and it is known
which bytes have left: an encrypted record counts when the kernel has taken its last byte.
Every connection makes a full handshake: no session is offered again, because that is what is measured.
"""

import contextlib
import functools
import socket
import ssl
import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from brokerlab.load import arrival
from brokerlab.load.alarm import now_ns
from brokerlab.load.streaming import RefusedError, Stage, Wait

_RECORD_BYTES = 16_384  # RFC 8446 section 5.1: the longest record
_SEAL_BYTES = 16 * _RECORD_BYTES  # encrypted at once, at most
_RAW_BYTES = 256 * 1024
_CONTEXTS = 1024


class _Raw(threading.local):
    """What comes from a socket before it is decrypted; one buffer for all streams of a thread."""

    def __init__(self) -> None:
        self.buffer = memoryview(bytearray(_RAW_BYTES))


_raw = _Raw()


@functools.lru_cache(maxsize=_CONTEXTS)
def context_for(authority: Path | None, certificate: Path | None) -> ssl.SSLContext:
    """TLS 1.2 or newer; the broker's certificate must be for its host and signed by `authority` (or the system's)."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.options |= ssl.OP_NO_RENEGOTIATION  # so that writing never waits for reading
    if authority is None:
        context.load_default_certs()
    else:
        context.load_verify_locations(authority)
    if certificate is not None:
        context.load_cert_chain(certificate)
    return context


class TlsStream:
    """Implements Stream; without a host it is the side of a server."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, host: str | None) -> None:
        sock.setblocking(False)
        self.socket = sock
        self.has_more = False
        self._stamps: arrival.Stamps | None = None
        self.stages: list[Stage] = []
        self.fileno = sock.fileno
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._is_server = host is None
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=self._is_server, server_hostname=host)
        self._steps = self._shaking()
        self._sealed = memoryview(b"")  # encrypted, but not taken by the kernel yet
        self._records: deque[tuple[int, int]] = deque()  # of `_sealed`: where each ends, and how many bytes it holds
        self._gone = 0  # of the encrypted bytes that `_records` tells of
        self._arrived_ns = 0
        self._came_full = False
        self._is_over = False
        self._failure: ConnectionAbortedError | None = None

    @property
    def is_exact(self) -> bool:
        return self._stamps is not None and not self.has_more and not self._incoming.pending

    def stamp(self) -> None:
        arrival.ask_for_stamps(self.socket)
        self._stamps = arrival.Stamps()

    # -- the handshake --------------------------------------------------------------------------------------------

    def shake(self) -> Wait:
        return next(self._steps, Wait.NOTHING)

    def _shaking(self) -> Iterator[Wait]:
        began_ns, is_done = now_ns(), False
        while not is_done:
            try:
                self._tls.do_handshake()
                is_done = True
            except ssl.SSLWantReadError:
                pass  # the broker's turn: what is to be sent is sent below, then its answer is waited for
            except ssl.SSLError as problem:
                with contextlib.suppress(OSError):  # the broker is told why, if it listens
                    self.socket.send(self._outgoing.read())
                raise _failure(problem) from problem
            yield from self._flushing()
            while not is_done and not self._fetch_quietly():
                yield Wait.READ
        self.has_more = self._is_server and self._incoming.pending > 0  # a client need not wait with its CONNECT
        cipher = self._tls.cipher()
        agreed = f"{self._tls.version()}, {cipher[0] if cipher else 'no cipher'}"
        self.stages.append(Stage("tls", began_ns, now_ns(), agreed))

    def _flushing(self) -> Iterator[Wait]:
        left = memoryview(self._outgoing.read())
        while left:
            try:
                left = left[self.socket.send(left) :]
            except BlockingIOError:
                yield Wait.WRITE

    def _fetch_quietly(self) -> bool:
        """Whether anything came; the end of the connection is an error here."""
        try:
            if not self._fetch():
                raise ConnectionResetError("the broker closed the connection during the TLS handshake")
        except BlockingIOError:
            return False
        return True

    # -- sending --------------------------------------------------------------------------------------------------

    def send(self, data: memoryview, /) -> int:
        while True:
            if not self._sealed:
                self._seal(data)
            if taken := self._hand_over():
                return taken

    def _seal(self, data: memoryview) -> None:
        """Encrypts the beginning of `data`, with the end of every record noted."""
        self._gone = 0
        for at in range(0, min(len(data), _SEAL_BYTES), _RECORD_BYTES):
            size = self._tls.write(data[at : at + _RECORD_BYTES])
            self._records.append((self._outgoing.pending, size))
        self._sealed = memoryview(self._outgoing.read())

    def _hand_over(self) -> int:
        """How many bytes of MQTT went to the kernel in whole records; BlockingIOError when it takes nothing."""
        taken, size = self.socket.send(self._sealed), 0
        self._gone += taken
        self._sealed = self._sealed[taken:]
        while self._records and self._records[0][0] <= self._gone:
            size += self._records.popleft()[1]
        return size

    # -- reading --------------------------------------------------------------------------------------------------

    def read(self, buffer: memoryview, /) -> tuple[int, int]:
        count = self._opened(buffer) if self.has_more else 0
        while not count:
            self.has_more = False
            if self._failure:
                raise self._failure
            if self._is_over or not self._fetch():
                return 0, now_ns()
            count = self._opened(buffer)
        is_at_end = self._is_over or self._failure is not None
        self.has_more = count == len(buffer) or self._came_full or is_at_end
        return count, self._arrived_ns

    def _fetch(self) -> int:
        """Takes encrypted bytes from the socket; 0 at the end of the connection."""
        if self._stamps is not None:
            count, self._arrived_ns = self._stamps.read(self.socket, _raw.buffer)
        else:
            count, self._arrived_ns = self.socket.recv_into(_raw.buffer), now_ns()
        self._came_full = count == _RAW_BYTES  # then the socket may hold more: only reading again tells
        if count:
            self._incoming.write(_raw.buffer[:count])
        return count

    def _opened(self, buffer: memoryview) -> int:
        """Decrypts into the buffer what is here in whole records."""
        count, size = 0, len(buffer)
        try:
            while count < size:
                got: int = self._tls.read(size - count, buffer[count:])  # type: ignore[assignment] # how many, with a buffer
                if not got:
                    self._is_over = True
                    break
                count += got
        except ssl.SSLWantReadError:
            pass  # all that came is decrypted; the rest of a record is still on its way
        except ssl.SSLError as problem:  # what was decrypted before it is still given out
            self._failure = _failure(problem)
        return count

    def finish(self) -> None:
        with contextlib.suppress(OSError, ValueError):  # the broker was faster, which is as good
            if not self._sealed:
                with contextlib.suppress(ssl.SSLWantReadError):  # its answer
                    self._tls.unwrap()
                self.socket.send(self._outgoing.read())

    def close(self) -> None:
        self.socket.close()


def _failure(problem: ssl.SSLError) -> ConnectionAbortedError:
    """OpenSSL's words without its numbers and file names."""
    if isinstance(problem, ssl.SSLCertVerificationError):
        return RefusedError(f"the broker's certificate is refused: {problem.verify_message}")
    said = (problem.reason or str(problem)).replace("_", " ").lower()
    # Alerts about our certificate: it is missing, unknown, expired, not signed by whom the broker trusts.
    is_about_us = "alert" in said and ("certificate" in said or "unknown ca" in said)
    return RefusedError(f"the broker refuses our certificate: {said}") if is_about_us else ConnectionAbortedError(said)
