"""Processes that transform messages, one for each worker of a route, so that they use several cores.

    hand = Hand(steps)          forked before anything else is open
    hand.give(batch)            a list of messages, each with a number that comes back with it
    hand.take()                 what became of them: a message, None (dropped) or a text (why it is bad)

A hand has one batch at a time, and what it gives back is in the order of the batch.
"""

import ctypes
import os
import pickle
import signal
import socket
import sys
import traceback
from collections.abc import Sequence
from typing import Any

from brokerlab.bridge.steps import BadMessageError, Message, Step, transformed
from brokerlab.errors import RunError

Outcome = Message | str | None
_LENGTH_BYTES = 8
_PR_SET_PDEATHSIG = 1  # prctl(2)


class Hand:
    """One process; `fileno` is readable when it has done its batch."""

    def __init__(self, steps: tuple[Step, ...], others: Sequence["Hand"] = ()) -> None:
        """Forks; `others` are those that were forked before, whose sockets this one must not hold."""
        self.is_busy = False
        self._socket, theirs = socket.socketpair()
        parent = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            self._socket.close()
            for other in others:
                other._socket.close()
            _serve(theirs, steps, parent)
        theirs.close()

    def fileno(self) -> int:
        return self._socket.fileno()

    def give(self, batch: list[Message]) -> None:
        self.is_busy = True
        _send(self._socket, batch)

    def take(self) -> list[Outcome]:
        """Waits for what is on its way; RunError where the process has ended."""
        done = _receive(self._socket)
        if done is None:
            _, status = os.waitpid(self._pid, 0)
            code = os.waitstatus_to_exitcode(status)
            raise RunError(
                f"a transformer's process ended by itself, with {code}",
                hint="its messages were not acknowledged, so the source still has them; see what it said above",
            )
        self.is_busy = False
        outcomes: list[Outcome] = done
        return outcomes

    def close(self) -> None:
        """Ends the process; what it is doing is not waited for."""
        self._socket.close()
        try:
            os.kill(self._pid, signal.SIGKILL)
            os.waitpid(self._pid, 0)
        except (ProcessLookupError, ChildProcessError):
            return  # it had ended already


def _serve(connection: socket.socket, steps: tuple[Step, ...], parent: int) -> None:
    """The life of the child, which does not return."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # the parent finishes, and then ends us
    code = 0
    try:
        while os.getppid() == parent and (batch := _receive(connection)) is not None:
            _send(connection, [outcome(message, steps) for message in batch])
    except BaseException:  # noqa: BLE001 - sys.exit() of a user's function too
        traceback.print_exc()
        code = 1
    sys.stderr.flush()
    os._exit(code)


def outcome(message: Message, steps: tuple[Step, ...]) -> Outcome:
    try:
        return transformed(message, steps)
    except BadMessageError as problem:
        return str(problem)


def _send(connection: socket.socket, value: Any) -> None:
    data = pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    connection.sendall(len(data).to_bytes(_LENGTH_BYTES, "little") + data)


def _receive(connection: socket.socket) -> Any:
    """What the other side sent; None at its end. Only our own processes are there."""
    head = _read(connection, _LENGTH_BYTES)
    data = None if head is None else _read(connection, int.from_bytes(head, "little"))
    return None if data is None else pickle.loads(data)  # noqa: S301


def _read(connection: socket.socket, size: int) -> bytes | None:
    data = bytearray()
    while len(data) < size:
        try:
            part = connection.recv(min(size - len(data), 2**20))
        except ConnectionError:
            return None
        if not part:
            return None
        data += part
    return bytes(data)
