"""Goes into a network namespace, by its name below /run/netns.

The kernel keeps the namespace of each thread: sockets belong to that which their thread was in when it made them, and
what a thread starts is born there. Python has setns(2) from 3.12 on only.
"""

import contextlib
import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

from brokerlab.errors import RunError

FOLDER = Path("/run/netns")
_CLONE_NEWNET = 0x40000000


def enter(namespace: str | None) -> None:
    """Takes the current thread there; None changes nothing."""
    if namespace is None:
        return
    try:
        with (FOLDER / namespace).open("rb") as entrance:
            _set(entrance.fileno())
    except OSError as problem:
        raise RunError(
            f"cannot go into the network namespace {namespace}: {problem.strerror}", hint="only root can"
        ) from problem


@contextlib.contextmanager
def inside(namespace: str | None) -> Iterator[None]:
    """Takes the current thread there for as long as the block lasts."""
    if namespace is None:
        yield
        return
    with Path("/proc/thread-self/ns/net").open("rb") as before:
        enter(namespace)
        try:
            yield
        finally:
            _set(before.fileno())


def _set(descriptor: int) -> None:
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, _CLONE_NEWNET) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
