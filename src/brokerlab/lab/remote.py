"""What a run does otherwise when somebody else runs its broker: the way in, the prefix of its topics, its version.

Publishers and subscribers are both ours and read one clock, so that latencies need nobody else's.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

from brokerlab.brokers.base import Broker, Endpoint, Node, RunsElsewhere, Security
from brokerlab.brokers.registry import driver
from brokerlab.errors import RunError, UserError
from brokerlab.lab.access import Access, open_access
from brokerlab.lab.clients import Clients
from brokerlab.load.client import Client as AskingClient
from brokerlab.load.client import Login, NotAdmittedError
from brokerlab.load.spec import Client, Entrance
from brokerlab.study.access import users_of
from brokerlab.study.address import is_loopback, written_address
from brokerlab.study.plan import Cell, PlannedRun
from brokerlab.study.values import Topics, Transport, Workload

_VERSION_TOPIC = "$SYS/broker/version"
_VERSION_S = 1.0  # retained, where there is one, so that it comes at once
_ATTEMPTS, _BETWEEN_S = 3, 0.5  # to get in: a far network may lose the first


def endpoint_of(cell: Cell) -> Endpoint | None:
    """Where the cell's broker is; None if it is ours to start."""
    broker = driver(cell.broker.driver)
    return broker.endpoint(cell.broker, cell.workload.transport) if isinstance(broker, RunsElsewhere) else None


def check_reachable(cell: Cell) -> None:
    """Refuses, before anything is sent, what cannot be done with somebody's broker."""
    endpoint = endpoint_of(cell)
    if endpoint is None:
        return
    if cell.limits:
        raise UserError(f"broker {cell.broker.name}: nobody can limit a broker that somebody else runs")
    is_six, is_here = ":" in endpoint.host, is_loopback(endpoint.host)
    strangers = [each for each in cell.workload.clients.addresses if is_six or (is_loopback(each) and not is_here)]
    if strangers:
        kind = "an address of IPv4, " if is_six else ""
        raise UserError(
            f"broker {cell.broker.name}: scenario.workload.clients.addresses has {strangers[0]}, {kind}from which "
            f"nobody gets to {endpoint.host}",
            hint="leave addresses out, or list addresses that this machine has in the network",
        )
    try:
        if endpoint.password is not None:
            endpoint.password.reveal()
    except UserError as problem:
        raise UserError(f"broker {cell.broker.name}: {problem.message}", hint=problem.hint) from problem


def require_answers(cells: Iterable[Cell]) -> None:
    """Refuses, before the first run, somebody's brokers that cannot be reached or do not let us in, all at once."""
    problems: dict[tuple[str, Transport], str] = {}
    asked = set()
    for cell in cells:
        endpoint, key = endpoint_of(cell), (cell.broker.name, cell.workload.transport)
        if endpoint is None or key in asked:
            continue
        asked.add(key)
        if problem := _why_not_in(endpoint, cell.workload):
            problems[key] = f"broker {cell.broker.name} (transport {cell.workload.transport}): {problem}"
    if problems:
        raise UserError(
            "\n".join(problems.values()), hint="check the address, the transport, the authority and the user's name"
        )


def _why_not_in(endpoint: Endpoint, workload: Workload) -> str | None:
    problem = None
    for attempt in range(_ATTEMPTS):
        time.sleep(_BETWEEN_S if attempt else 0)
        try:
            with AskingClient(endpoint.host, endpoint.port, login=_login(endpoint, workload)):
                return None
        except NotAdmittedError as refusal:
            return refusal.message
        except RunError as failure:
            problem = failure.message
    return problem


def _login(endpoint: Endpoint, workload: Workload) -> Login:
    """That of the first client, as which the lab's own clients come in too."""
    entrance = Entrance(workload.transport, authority=endpoint.authority, path=endpoint.path)
    names = _names(endpoint, workload, 1)
    return Login(entrance, *names[0]) if names else Login(entrance)


def below_prefix(run: PlannedRun) -> PlannedRun:
    """The run with its topics below the prefix that the broker asks for."""
    endpoint = endpoint_of(run.cell)
    if endpoint is None or not endpoint.prefix:
        return run
    topics = prefixed(run.cell.workload.topics, endpoint.prefix)
    return replace(run, cell=replace(run.cell, workload=replace(run.cell.workload, topics=topics)))


def prefixed(topics: Topics, prefix: str) -> Topics:
    """Depth and length of a study are those of what follows the prefix."""
    several = (topics.subscribe,) if isinstance(topics.subscribe, str) else topics.subscribe
    return replace(
        topics,
        prefix=prefix,
        publish=prefix + topics.publish,
        subscribe=prefix + several[0] if len(several) == 1 else tuple(prefix + each for each in several),
        reply=prefix + topics.reply,
        depth=None if topics.depth is None else topics.depth + prefix.count("/"),
        length_bytes=None if topics.length_bytes is None else topics.length_bytes + len(prefix.encode()),
    )


def open_way_in(
    cell: Cell, clients: Clients, *, hosts: Sequence[str], beside: Sequence[Client] = ()
) -> AbstractContextManager[Access]:
    """How the clients of a run get into its broker."""
    endpoint = endpoint_of(cell)
    if endpoint is None:
        return open_access(cell.workload, clients, host=hosts[0], others=hosts[1:], beside=beside)
    return _remote_access(endpoint, cell.workload, (*clients.connecting(), *beside))


@contextmanager
def _remote_access(endpoint: Endpoint, workload: Workload, everyone: Sequence[Client]) -> Iterator[Access]:
    """With what the broker's owner gave us; the lab's own clients come in as the first client does."""
    names = _names(endpoint, workload, len(everyone))
    yield Access(
        Security(transport=workload.transport, protocol=workload.protocol),
        login=_login(endpoint, workload),
        clients={
            client.name: replace(client, user=user, password=password)
            for client, (user, password) in zip(everyone, names, strict=False)
        },
        facts={
            "transport": str(workload.transport),
            "certificates": str(workload.certificates),
            "users": len(set(names)),
        },
    )


def _names(endpoint: Endpoint, workload: Workload, count: int) -> list[tuple[str, bytes | None]]:
    """User and password of each client; none where nobody asks for them."""
    if workload.credentials:
        return [(user, password.encode()) for user, password in users_of(workload.credentials, count)]
    if endpoint.user is None:
        return []
    password = None if endpoint.password is None else endpoint.password.reveal().encode()
    return [(endpoint.user, password)] * count


def broker_facts(broker: Broker, node: Node, *, version: str, login: Login) -> dict[str, object]:
    """For the manifest: what is known of the broker, ours or somebody's."""
    facts: dict[str, object] = {
        "command": list(node.argv),
        "address": written_address(node.host, node.port),
        "is_remote": isinstance(broker, RunsElsewhere),
        "version": told_version(node, login) or version if isinstance(broker, RunsElsewhere) else version,
    }
    return facts


def told_version(node: Node, login: Login) -> str:
    """What the broker says on $SYS that it is; empty where it says nothing or does not let us ask."""
    try:
        with AskingClient(node.host, node.port, login=login) as client:
            client.subscribe(_VERSION_TOPIC, 0)
            deadline = time.monotonic() + _VERSION_S
            while (left_s := deadline - time.monotonic()) > 0:
                message = client.receive(timeout_s=left_s)
                if message is not None and message.topic == _VERSION_TOPIC:
                    return message.payload.decode(errors="replace").strip()
    except RunError:
        return ""  # whether it answers at all is the question of the proof that follows
    return ""
