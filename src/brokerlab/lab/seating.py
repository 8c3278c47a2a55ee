"""Where the nodes of an ensemble sit, and the commands by which they become members."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from brokerlab.brokers.base import Seat
from brokerlab.brokers.port import free_port, is_free
from brokerlab.brokers.starting import Started
from brokerlab.errors import RunError
from brokerlab.inside import inside
from brokerlab.lab.stand import Stand

_MQTT_PORT = 1883  # as registered for it; a node in a namespace of its own has it to itself
_SPARE_PORTS = 8
_JOIN_S = 120.0  # for one command that makes a node a member


def seats_of(stand: Stand, folder: Path) -> tuple[Seat, ...]:
    """A seat for each node, with ports that are free where it stands; below the folder each has one by its number."""
    taken: set[tuple[str | None, str, int]] = set()
    seats = []
    for number, place in enumerate(stand.brokers):
        ports: list[int] = []
        with inside(place.namespace):
            wants_own = place.namespace is not None and is_free(place.address, _MQTT_PORT)
            while len(ports) <= _SPARE_PORTS:
                port = _MQTT_PORT if wants_own else free_port(place.address)
                wants_own = False
                if (place.namespace, place.address, port) not in taken:
                    taken.add((place.namespace, place.address, port))
                    ports.append(port)
        own = (folder / str(number)).absolute()
        seats.append(Seat(number, place.address, ports[0], own, tuple(ports[1:])))
    return tuple(seats)


def join_group(process: Started, command: Sequence[str]) -> None:
    """Runs a command that makes the node a member; what it says goes into the node's log."""
    name = Path(command[0]).name
    with inside(process.namespace), process.log.open("ab") as log:
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=process.folder,
                env=os.environ | dict(process.node.env),
                timeout=_JOIN_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as problem:
            raise RunError(f"the node cannot join: {name}: {problem}") from problem
    if done.returncode:
        raise RunError(
            f"the node cannot join: {name} ended with exit code {done.returncode}; the end of the log:\n"
            f"{process.log_tail()}",
            hint=process.whereabouts,
        )
