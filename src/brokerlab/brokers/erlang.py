"""Nodes of Erlang that find each other without the port mapper (epmd), which would outlive them.

All nodes of a cluster listen for each other at the same port, each at an address of its own, by which it is named;
so nobody needs to be asked where another node is. Nodes that share a loopback address get one each out of
127.0.0.0/8, which is all this machine. They trust each other by a cookie, a secret that lies in the home of each.
"""

import ipaddress
import itertools
import os
import secrets
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from brokerlab.brokers.base import Seat, Security

ALONE = ("-start_epmd", "false", "-erl_epmd_port", "4369", "-dist_listen", "false")  # the port is never used
CALL = "erl_call"  # a program that comes with Erlang
_COOKIE = ".erlang.cookie"
_LOOPBACK = ipaddress.ip_address("127.77.0.0")
_ANSWER_S = 1.5
_JOIN_S = 60


@dataclass(frozen=True, slots=True)
class Member:
    """One node of a cluster, as Erlang sees it."""

    name: str  # program@address
    address: str
    port: int
    cookie: str = field(repr=False)

    @property
    def arguments(self) -> tuple[str, ...]:
        """Of the program erl."""
        interface = "{" + self.address.replace(".", ",") + "}"
        return (
            *("-name", self.name, "-start_epmd", "false", "-erl_epmd_port", str(self.port)),
            *("-kernel", "inet_dist_use_interface", interface),
        )

    def call(self, what: str) -> tuple[str, ...]:
        """The command that calls a function there: `module function [arguments]`."""
        return (CALL, *_call(self.address, str(self.port), what))


def _call(address: str, port: str, what: str) -> tuple[str, ...]:
    return ("-address", f"{address}:{port}", "-timeout", str(_JOIN_S), "-a", what)


def members(program: str, seats: Sequence[Seat]) -> tuple[Member, ...]:
    """By seat; the first spare port of each is left to its page."""
    cookie = secrets.token_hex(16)
    taken = {port for seat in seats for port in (seat.port, *seat.spare[:1])}
    port = next(port for port in seats[0].spare if port not in taken)
    made = []
    for number, seat in enumerate(seats):
        is_loopback = ipaddress.ip_address(seat.host).is_loopback
        address = str(_LOOPBACK + number + 1) if is_loopback else seat.host
        made.append(Member(f"{program}@{address}", address, port, cookie))
    return tuple(made)


def home(security: Security) -> Path:
    """Where a member of a cluster has its cookie."""
    if security.folder is None:
        raise ValueError("a private folder is needed for the cookie of a cluster")
    return security.folder


def cookie_of(member: Member, security: Security) -> dict[Path, str | bytes]:
    """For Node.secrets."""
    return {home(security) / _COOKIE: member.cookie}


def asked_at(arguments: Sequence[str], what: str) -> tuple[str, ...]:
    """The command that calls a function of the member that was started with these; none where it is no member."""
    told = dict(itertools.pairwise(arguments))
    name, port = told.get("-name"), told.get("-erl_epmd_port")
    return (CALL, *_call(name.partition("@")[2], port, what)) if name and port else ()


def said_by(command: Sequence[str], env: Mapping[str, str]) -> str | None:
    """What a command of Member.call says; None when nobody answers in time."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            env=os.environ | dict(env),
            timeout=_ANSWER_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
