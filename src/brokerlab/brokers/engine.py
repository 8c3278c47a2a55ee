"""The user's container engine: where it answers, which images it has, and what of ours it runs.

Docker's own API, which Podman speaks too. The engine is the one that DOCKER_HOST names, or the first that answers on
one of the usual sockets. Nothing is pulled: an image is the user's to get.
"""

import contextlib
import os
import socket
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from brokerlab.errors import RunError, UserError

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

PREFIX = "brokerlab-"  # of the names of our containers
_TIMEOUT_S = 30
_UNIX = "unix://"
_HINT = "start Docker or Podman, or set DOCKER_HOST to the address of an engine that runs"


class Engine(NamedTuple):
    """One that answers."""

    client: "DockerClient"
    address: str


def connect(url: str | None = None) -> Engine:
    """The engine at an address; by default the user's. Refuses with the reason when none answers."""
    import docker  # noqa: PLC0415 - it takes a third of a second, and most commands need no engine

    tried = []
    for address in [url] if url else addresses():
        try:
            _knock(address)
            client = docker.DockerClient(base_url=address, timeout=_TIMEOUT_S, version="auto")
            client.ping()
        except (docker.errors.DockerException, OSError) as problem:
            tried.append(f"{address}: {_reason(problem)}")
        else:
            return Engine(client, address)
    raise UserError("no container engine answers: " + ("; ".join(tried) or "there is no socket of one"), hint=_HINT)


def addresses() -> list[str]:
    """Where engines may be on this machine: what DOCKER_HOST says, or sockets that are there."""
    if named := os.environ.get("DOCKER_HOST"):
        return [named]
    own = os.environ.get("XDG_RUNTIME_DIR", f"/run/user/{os.geteuid()}")
    usual = ("/run/docker.sock", f"{own}/docker.sock", "/run/podman/podman.sock", f"{own}/podman/podman.sock")
    return [f"{_UNIX}{path}" for path in usual if Path(path).exists()]


@cache
def images() -> frozenset[str]:
    """The names of all images that the engine has, with their tags; looked up once."""
    with contextlib.closing(connect().client) as client:
        return frozenset(tag for image in client.images.list() for tag in image.tags)


def with_tag(image: str) -> str:
    """The image's name as engines list it."""
    return image if ":" in image.rpartition("/")[2] else f"{image}:latest"


@contextlib.contextmanager
def told(what: str) -> Iterator[None]:
    """Turns what the engine refuses into one message."""
    import docker  # noqa: PLC0415 - as above

    try:
        yield
    except docker.errors.ImageNotFound as problem:
        raise UserError(f"{what}: the engine has no such image: {_reason(problem)}", hint=_HINT) from problem
    except (docker.errors.DockerException, OSError) as problem:
        raise RunError(f"{what}: {_reason(problem)}") from problem


def remove(url: str, name: str) -> bool:
    """Ends and removes a container of ours, with its volumes; whether it was there."""
    import docker  # noqa: PLC0415 - as above

    if not name.startswith(PREFIX):
        raise ValueError(f"{name} is no container of ours")
    with contextlib.closing(connect(url).client) as client, told(f"container {name}"):
        try:
            container: Container = client.containers.get(name)
            container.remove(force=True, v=True)
        except docker.errors.NotFound:
            return False
        return True


def _knock(address: str) -> None:
    """Raises OSError where nobody listens on a socket: the client would leave one of its own open then."""
    if address.startswith(_UNIX):
        with socket.socket(socket.AF_UNIX) as knocking:
            knocking.connect(address.removeprefix(_UNIX))


def _reason(problem: Exception) -> str:
    explanation: Any = getattr(problem, "explanation", None)
    return str(explanation or problem).strip().splitlines()[0]
