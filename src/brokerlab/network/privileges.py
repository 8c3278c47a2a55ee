"""Whether networks can be made here at all; asked before anything starts, so it loads nothing."""

import os
from pathlib import Path

_CAP_SYS_ADMIN, _CAP_NET_ADMIN, _CAP_NET_RAW = 21, 12, 13
_STATUS = Path("/proc/self/status")


def reason_unable() -> str | None:
    """Why this process cannot make networks; None where it can."""
    if not Path("/proc/self/ns/net").exists():
        return "this kernel has no network namespaces"
    missing = [name for name, bit in _needed().items() if not _capabilities() >> bit & 1]
    if os.geteuid() != 0 or missing:
        return "network namespaces need root" + (f" with {', '.join(missing)}" if missing else "")
    if not Path("/dev/net/tun").exists():
        return "there is no /dev/net/tun, which links without netem are made of"
    return None


def reason_deaf() -> str | None:
    """Why this process cannot capture; None where it can."""
    return None if _capabilities() >> _CAP_NET_RAW & 1 else "captures need root, or CAP_NET_RAW"


def _needed() -> dict[str, int]:
    return {"CAP_SYS_ADMIN": _CAP_SYS_ADMIN, "CAP_NET_ADMIN": _CAP_NET_ADMIN, "CAP_NET_RAW": _CAP_NET_RAW}


def _capabilities() -> int:
    line = next(line for line in _STATUS.read_text(encoding="ascii").splitlines() if line.startswith("CapEff:"))
    return int(line.split()[1], 16)
