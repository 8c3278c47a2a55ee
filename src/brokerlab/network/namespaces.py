"""Network namespaces of ours: made, furnished and removed by name."""

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from pyroute2 import IPRoute, netns
from pyroute2.netlink.exceptions import NetlinkError

from brokerlab import inventory
from brokerlab.errors import RunError
from brokerlab.inside import inside
from brokerlab.inventory import Thing
from brokerlab.network.removal import remove_namespace


@contextlib.contextmanager
def namespace(name: str, *, is_router: bool = False) -> Iterator[IPRoute]:
    """A namespace with its loopback up, and what talks to the kernel inside it; removed afterwards."""
    with inventory.noted(Thing("namespace", name)), contextlib.ExitStack() as stack:
        stack.callback(remove_namespace, name)
        try:
            netns.create(name)
            with inside(name):
                _furnish(is_router=is_router)
                talk = stack.enter_context(contextlib.closing(IPRoute()))
        except (OSError, NetlinkError) as problem:
            raise RunError(f"cannot make the network namespace {name}: {problem}", hint="only root can") from problem
        with kernel_errors(f"in the namespace {name}"):
            talk.link("set", index=1, state="up")  # loopback is the first interface of any namespace
        yield talk


@contextlib.contextmanager
def kernel_errors(doing: str) -> Iterator[None]:
    """Turns what the kernel refuses into an error of ours."""
    try:
        yield
    except NetlinkError as problem:
        raise RunError(f"the kernel refused {doing}: {os.strerror(problem.code)}") from problem


def index_of(talk: IPRoute, interface: str) -> int:
    found = talk.link_lookup(ifname=interface)
    if not found:
        raise RunError(f"the interface {interface} is gone")
    return int(found[0])


def lacks(problem: NetlinkError) -> bool:
    """Whether the kernel says that it does not have what was asked for."""
    return problem.code in (errno.ENOENT, errno.EOPNOTSUPP)


def _furnish(*, is_router: bool) -> None:
    """IPv4 only: neighbours are known beforehand, and nothing is said without being asked."""
    net = Path("/proc/sys/net")
    if (net / "ipv6/conf/all/disable_ipv6").exists():
        (net / "ipv6/conf/all/disable_ipv6").write_text("1", encoding="ascii")
        (net / "ipv6/conf/default/disable_ipv6").write_text("1", encoding="ascii")
    if is_router:
        (net / "ipv4/ip_forward").write_text("1", encoding="ascii")
