"""Looks at what the kernel lets us do: namespaces, netem, TUN and limits.

Nothing is left behind: what must be tried is tried in a namespace or a group of our own name, which is removed again.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from brokerlab.brokers.limits import what_is_possible
from brokerlab.cli.checkup import Check, limited, missing, ok
from brokerlab.errors import RunError

PREFIX = "bl-doctor-"
LOOPBACK_STAYS = "links are not emulated: studies run over loopback"
_LONGEST_COMMAND_S = 10.0
_TUN = Path("/dev/net/tun")


def privilege_checks() -> list[Check]:
    return [_root(), *_network_checks(), _tun(), _limits()]


def _root() -> Check:
    if os.geteuid() == 0:
        return ok("root", "yes")
    return limited(
        "root",
        f"no, user {os.geteuid()}",
        follows="no namespaces, no emulated links, no limits on a broker",
        lift="sudo, for studies that need these",
    )


def _network_checks() -> list[Check]:
    """Namespaces and netem, by trying both in a namespace that is thrown away."""
    if os.geteuid() != 0:
        return [
            limited("network namespaces", "not tried without root", follows=LOOPBACK_STAYS, lift="run as root"),
            limited("netem", "not tried without root", follows=LOOPBACK_STAYS, lift="run as root"),
        ]
    absent = [name for name in ("ip", "tc") if shutil.which(name) is None]
    if absent:
        return [
            missing(what, f"no program {absent[0]}", follows=LOOPBACK_STAYS, lift="apt-get install iproute2")
            for what in ("network namespaces", "netem")
        ]
    try:
        with _throw_away_namespace() as namespace:
            return [ok("network namespaces", "made and removed one"), _netem(namespace)]
    except RunError as problem:
        return [
            missing("network namespaces", problem.message, follows=LOOPBACK_STAYS, lift="a host that allows them"),
            missing("netem", "not tried without a namespace", follows=LOOPBACK_STAYS, lift="as above"),
        ]


@contextmanager
def _throw_away_namespace() -> Iterator[str]:
    name = f"{PREFIX}{os.getpid()}"
    _run("ip", "netns", "add", name)
    try:
        yield name
    finally:
        _run("ip", "netns", "delete", name)


def _netem(namespace: str) -> Check:
    try:
        _run("tc", "-n", namespace, "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms")
    except RunError as problem:
        return missing(
            "netem",
            problem.message,
            follows="links that delay and drop are carried by a process of ours, which takes CPU time",
            lift="modprobe sch_netem, or a kernel with CONFIG_NET_SCH_NETEM",
        )
    return ok("netem", "set 1 ms on a link of our own")


def _run(*command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LONGEST_COMMAND_S, check=False)
    except subprocess.TimeoutExpired as problem:
        raise RunError(f"{command[0]} says nothing for {_LONGEST_COMMAND_S:g} s") from problem
    if done.returncode != 0:
        raise RunError(f"{command[0]} says: {' '.join(done.stderr.split()) or f'exit code {done.returncode}'}")


def _tun() -> Check:
    if not _TUN.exists():
        return missing("TUN", f"no {_TUN}", follows="no links in user space", lift="modprobe tun")
    if not os.access(_TUN, os.R_OK | os.W_OK):
        return limited("TUN", f"{_TUN} is not ours to open", follows="no links in user space", lift="run as root")
    return ok("TUN", str(_TUN))


def _limits() -> Check:
    """Which of system.limits can be set, by setting each on a group that is thrown away."""
    problems = what_is_possible()
    possible = [name for name, problem in problems.items() if problem is None]
    if len(possible) == len(problems):
        return ok("limits on a broker", ", ".join(possible))
    reasons = dict.fromkeys(problem for problem in problems.values() if problem is not None)
    refused = [name for name in problems if name not in possible]
    return limited(
        "limits on a broker",
        f"{', '.join(possible) or 'none'}; not {', '.join(refused)}: {'; '.join(reasons)}",
        follows="a study whose system.limits has these is refused",
        lift="run as root, or as a user in a scope of your own (systemd-run --user --scope brokerlab run STUDY)",
    )
