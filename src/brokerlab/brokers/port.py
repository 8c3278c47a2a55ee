"""TCP ports of this machine: a free one, who holds a taken one, and whose a listener is."""

import errno
import random
import socket
from collections.abc import Collection
from pathlib import Path

import psutil

from brokerlab.errors import RunError, UserError

_LOWEST = 10_000
_ATTEMPTS = 200
_ANY_ADDRESS = {"0.0.0.0", "::"}  # noqa: S104 - compared with, not bound to


def free_port(host: str) -> int:
    """A port of `host` that nobody listens on now.

    It lies below the range from which the kernel takes the ports of outgoing connections, so that
    none of a run's own clients can take it before the broker does. Another program still can:
    the proof of readiness asks whose the listener is.
    """
    highest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii").split()[0]) - 1
    if highest <= _LOWEST:
        return _port_of_the_kernel(host)
    for _ in range(_ATTEMPTS):
        port = random.randint(_LOWEST, highest)  # noqa: S311 - not a secret
        if is_free(host, port):
            return port
    raise RunError(f"no free port between {_LOWEST} and {highest} on {host}, tried {_ATTEMPTS} of them")


def _port_of_the_kernel(host: str) -> int:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def is_free(host: str, port: int) -> bool:
    """Whether a broker could listen on host:port now."""
    with socket.socket() as probe:
        # As brokers do: closed connections that linger in TIME_WAIT do not count, listeners do.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as problem:
            if problem.errno == errno.EADDRINUSE:
                return False
            raise UserError(f"nothing can listen on {host}:{port}: {problem.strerror}") from problem
    return True


def require_free(host: str, port: int) -> None:
    """Refuses a taken port with the name of the program that has it, where that can be known."""
    if is_free(host, port):
        return
    holders = ", ".join(sorted({_describe(pid) for pid in listener_pids(host, port)})) or "a program"
    raise UserError(
        f"{host}:{port} is in use by {holders}", hint="stop that program, or choose another port; nothing was started"
    )


def listener_pids(host: str, port: int) -> set[int | None]:
    """The processes that listen on host:port; None stands for those that only root may know."""
    return {
        connection.pid
        for connection in psutil.net_connections(kind="tcp")
        if connection.status == psutil.CONN_LISTEN
        and connection.laddr.port == port
        and connection.laddr.ip in _ANY_ADDRESS | {host, f"::ffff:{host}"}  # a socket for IPv6 that takes IPv4 as well
    }


def all_listeners_in(pids: Collection[int], host: str, port: int) -> bool:
    """Whether somebody listens on host:port and all who do are among `pids`."""
    listeners = listener_pids(host, port)
    return bool(listeners) and listeners <= set(pids)


def _describe(pid: int | None) -> str:
    if pid is None:
        return "a program of another user"
    try:
        return f"{psutil.Process(pid).name()} (pid {pid})"
    except psutil.Error:
        return f"pid {pid}"
