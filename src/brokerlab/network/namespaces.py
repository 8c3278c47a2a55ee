"""Network namespaces of ours: made, furnished and removed by name."""

import contextlib
import ctypes
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from pyroute2 import IPRoute, netns
from pyroute2.netlink.exceptions import NetlinkError

from brokerlab import inventory
from brokerlab.errors import RunError
from brokerlab.inside import FOLDER, inside
from brokerlab.inventory import Thing
from brokerlab.network.naming import PREFIX

_MNT_DETACH = 2


@contextlib.contextmanager
def namespace(name: str, *, is_router: bool = False) -> Iterator[IPRoute]:
    """A namespace with its loopback up, and what talks to the kernel inside it; removed afterwards."""
    with inventory.noted(Thing("namespace", name)):
        try:
            netns.create(name)
            with inside(name):
                _furnish(is_router=is_router)
                talk = IPRoute()
        except (OSError, NetlinkError) as problem:
            remove_namespace(name)
            raise RunError(f"cannot make the network namespace {name}: {problem}", hint="only root can") from problem
        try:
            with kernel_errors(f"in the namespace {name}"):
                talk.link("set", index=1, state="up")  # loopback is the first interface of any namespace
            yield talk
        finally:
            talk.close()
            remove_namespace(name)


def remove_namespace(name: str) -> None:
    """Removes it, if it is there and ours by its name; what runs inside keeps it alive but unnamed."""
    if not name.startswith(PREFIX) or "/" in name:
        raise ValueError(f"{name} is no namespace of brokerlab's")
    path = FOLDER / name
    libc = ctypes.CDLL(None, use_errno=True)
    while libc.umount2(os.fsencode(path), _MNT_DETACH) == 0:
        pass
    with contextlib.suppress(FileNotFoundError):
        path.unlink()


def is_there(name: str) -> bool:
    return (FOLDER / name).exists()


def reason_unable() -> str | None:
    """Why this process cannot make networks; None where it can."""
    if os.geteuid() != 0:
        return "network namespaces need root; loopback does not"
    if not Path("/proc/self/ns/net").exists():
        return "this kernel has no network namespaces"
    return None


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
