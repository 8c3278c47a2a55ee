"""Our own bridge as a process between two nodes, where neither broker has one, or where a tree is laid anew.

It is a client of both, so that it is started and stopped without touching a broker or its clients.
"""

import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from brokerlab.bridge.joint import JOINED, Side, joint_between
from brokerlab.brokers.address import written_address
from brokerlab.brokers.base import Broker, Node
from brokerlab.brokers.process import BrokerProcess
from brokerlab.errors import RunError
from brokerlab.load.client import Login
from brokerlab.study.tree import Pair

_PASSWORD = "BROKERLAB_JOINT_PASSWORD"  # noqa: S105 - the name of a variable
_LATEST = "5.0"
_STOP_S = 2.0
_JOIN_S = 120.0  # the first start after an installation compiles
_POLL_S = 0.02


def joint_process(
    pair: Pair,
    nodes: Sequence[Node],
    drivers: Sequence[Broker],
    *,
    login: Login,
    qos: int,
    folder: Path,
    namespace: str | None,
    prefix: str = "",
) -> BrokerProcess:
    """The process that carries all messages between the two nodes, both ways; it is not started yet."""
    name = f"joint-{pair[0]}-{pair[1]}"
    ends = [drivers[number].abilities for number in pair]
    is_latest = all(_LATEST in end.protocols and not end.has_port_per_protocol for end in ends)
    protocol = _LATEST if is_latest else login.protocol
    env = {} if login.password is None else {_PASSWORD: login.password.decode()}
    sides = [
        Side(
            written_address(nodes[number].host, nodes[number].port),
            protocol=protocol,
            transport=str(login.entrance.transport),
            authority=login.entrance.authority,
            user=login.user,
            password=f"env:{_PASSWORD}" if env else None,
        )
        for number in pair
    ]
    joint = joint_between(name, *sides, subscribe=[f"{prefix}#"], qos=qos)
    # Port 0: it listens nowhere.
    node = Node(joint.argv, nodes[pair[0]].host, 0, files=joint.files, env=env, stop_s=_STOP_S)
    return BrokerProcess(node, folder=folder / name, namespace=namespace)


def await_joined(joints: Iterable[BrokerProcess]) -> None:
    """Returns when all of them say that messages pass; RunError when one ends, or time is up."""
    deadline = time.monotonic() + _JOIN_S
    for joint in joints:
        while JOINED not in joint.log.read_text(encoding="utf-8", errors="replace").splitlines():
            joint.require_alive("both of its brokers")
            if time.monotonic() > deadline:
                raise RunError(
                    f"the bridge in {joint.folder} has not joined its brokers in {_JOIN_S:g} s; the end of its log:\n"
                    f"{joint.log_tail() or '(nothing was logged)'}",
                    hint=joint.whereabouts,
                )
            time.sleep(_POLL_S)
