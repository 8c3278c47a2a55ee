"""Packages of the Debian that this machine runs; none of their services is started.

invoke-rc.d(8) asks /usr/sbin/policy-rc.d whether a service may be started, and 101 is "forbidden". Where there is
none, ours is put in place while packages are installed. One that is there is never touched, but asked: if it
would allow a service, nothing is installed.
"""

import contextlib
import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from brokerlab.brokers.install.place import is_locked, locked
from brokerlab.brokers.install.workshop import Workshop
from brokerlab.errors import UserError

POLICY = Path("/usr/sbin/policy-rc.d")
_FORBIDDEN = 101
_MARK = "# brokerlab: while packages are installed"
_OURS = f"#!/bin/sh\n{_MARK}\nexit {_FORBIDDEN}\n"
_APT = ("apt-get", "--quiet", "--option", "DPkg::Lock::Timeout=300")
_INSTALL = (*_APT, "install", "--yes", "--no-upgrade", "--no-install-recommends")
_ENV = {"DEBIAN_FRONTEND": "noninteractive"}
_LOCK = "debian"  # no broker has that name


def install_packages(packages: Sequence[str], shop: Workshop) -> None:
    """Installs what is missing of them, upgrading nothing, and starts no service."""
    named = " ".join(packages)
    with locked(_LOCK, shop.teller) as lock:
        shop = replace(shop, locks=(*shop.locks, lock))  # what is left of us keeps the policy that it needs
        shop.run([*_APT, "update"], doing="apt-get update", env=_ENV)
        shop.run([*_INSTALL, "--download-only", *packages], doing=f"apt-get, downloading {named}", env=_ENV)
        with no_service_starts(packages):
            shop.run([*_INSTALL, *packages], doing=f"apt-get install {named}", env=_ENV, is_patient=True)


def clear_policy() -> None:
    """Takes away the policy that an install left when it was killed, unless its apt-get still runs."""
    if _is_ours(POLICY) and not is_locked(_LOCK) and os.access(POLICY.parent, os.W_OK):
        POLICY.unlink(missing_ok=True)


@contextlib.contextmanager
def no_service_starts(packages: Sequence[str], policy: Path = POLICY) -> Iterator[None]:
    """Nothing that is installed meanwhile starts a service."""
    if _is_ours(policy):
        policy.unlink()  # of one that was killed
    try:
        made = os.open(policy, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o755)
    except FileExistsError:
        _require_forbidding(policy, packages)
        yield
        return
    try:
        with os.fdopen(made, "w") as file:
            file.write(_OURS)
        policy.chmod(0o755)
        yield
    finally:
        if _is_ours(policy):
            policy.unlink()


def _is_ours(policy: Path) -> bool:
    with contextlib.suppress(OSError):
        return _MARK in policy.read_text(encoding="utf-8", errors="replace")
    return False


def _require_forbidding(policy: Path, packages: Sequence[str]) -> None:
    for service in packages:
        code = subprocess.run([policy, service, "start"], stdin=subprocess.DEVNULL, check=False).returncode
        if code != _FORBIDDEN:
            raise UserError(
                f"{policy} would let {service} start as a service when it is installed",
                hint=f"install it yourself (apt-get install {' '.join(packages)}), or move {policy} away meanwhile",
            )
