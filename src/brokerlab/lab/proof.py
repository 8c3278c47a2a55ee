"""Proves that a broker is ready: our own process answers, and delivers a message.

    CONNACK        somebody speaks MQTT on the port
    listener       and it is the process that we started
    delivery       and it hands on what is published

Nothing is slept for: each step is tried until it succeeds or the deadline has passed, and the
error says which step did not.
"""

import secrets
import time
from dataclasses import dataclass, replace

from brokerlab.brokers.base import Node
from brokerlab.brokers.process import owns_listener
from brokerlab.brokers.running import Running
from brokerlab.errors import RunError
from brokerlab.load.client import Client, Login, NotAdmittedError
from brokerlab.load.topics import PROOF_PREFIX

_POLL_S, _GENTLE_POLL_S = 0.01, 1.0  # of our own broker, and of somebody's
_ANSWER_S = 5.0  # NATS makes its streams at the first CONNECT
_SUBSCRIPTIONS = 3  # tried at most: Moquette may close the connection of a client that subscribes at once
_REPEAT_S = 0.2  # between publications, until one comes back


@dataclass(frozen=True, slots=True)
class Proof:
    publications: int  # all at QoS 0 and without payload; the broker's own counters include them
    seconds: float  # from the call until the delivery


def prove_ready(
    process: Running,
    host: str,
    port: int,
    *,
    login: Login | None = None,
    deadline_s: float | None = None,
    prefix: str = "",
) -> Proof:
    """Returns when the broker has delivered a message, below `prefix`; RunError when it ends or time is up."""
    began = time.monotonic()
    login = named(login or Login(), process.node)
    deadline = began + (process.node.ready_s if deadline_s is None else deadline_s)
    topic = prefix + PROOF_PREFIX + secrets.token_hex(8)
    for is_last in (*(False,) * (_SUBSCRIPTIONS - 1), True):
        with _connect(process, host, port, login, deadline) as client:
            _require_ours(process, host, port)
            if not _subscribes(process, client, topic, deadline, is_last=is_last):
                continue
            publications = _echo(process, client, topic, deadline)
            break
    return Proof(publications, time.monotonic() - began)


def named(login: Login, node: Node) -> Login:
    """With the name that the broker asks for, where it asks everybody for one and the study has none."""
    if node.login is None or login.user is not None:
        return login
    user, password = node.login
    return replace(login, user=user, password=password.encode())


def _connect(process: Running, host: str, port: int, login: Login, deadline: float) -> Client:
    waited_for = f"a CONNACK from {host}:{port}"
    last = "nothing was tried"
    while (remaining_s := deadline - time.monotonic()) > 0:
        process.require_alive(waited_for)
        try:
            return Client(host, port, login=login, timeout_s=min(remaining_s, _ANSWER_S))
        except NotAdmittedError as problem:
            _require_ours(process, host, port)
            if not process.node.is_open_before_users:
                raise
            last = problem.message
        except RunError as problem:
            last = problem.message
        time.sleep(_POLL_S if process.is_ours else _GENTLE_POLL_S)
    raise _late(process, waited_for, last)


def _require_ours(process: Running, host: str, port: int) -> None:
    if process.is_ours and not owns_listener(process, host, port):
        process.require_alive(f"its listener on {host}:{port}")
        pids = ", ".join(map(str, process.pids()))
        raise RunError(
            f"{host}:{port} answers, but the listener is not that of the broker that was started (pid {pids})",
            hint="another program took the port; run again, or stop that program",
        )


def _subscribes(process: Running, client: Client, topic: str, deadline: float, *, is_last: bool) -> bool:
    try:
        client.subscribe(topic, 0, timeout_s=max(deadline - time.monotonic(), _POLL_S))
    except RunError:
        process.require_alive(f"a SUBACK for {topic}")
        if is_last or time.monotonic() > deadline:
            raise
        return False
    return True


def _echo(process: Running, client: Client, topic: str, deadline: float) -> int:
    """How many publications it took until one came back."""
    waited_for = f"a message on {topic}"
    publications = 0
    try:
        while time.monotonic() < deadline:
            client.publish(topic)
            publications += 1
            if client.receive(timeout_s=_REPEAT_S) is not None:
                return publications
            process.require_alive(waited_for)
    except RunError:
        process.require_alive(waited_for)
        raise
    raise _late(process, waited_for, f"{publications} publications brought none")


def _late(process: Running, waited_for: str, last: str) -> RunError:
    return RunError(
        f"waited in vain for {waited_for}: {last}; the end of the broker's log:\n{process.log_tail() or '(nothing)'}",
        hint=process.whereabouts,
    )
