"""Removes a network namespace of ours by its name; `brokerlab clean` does so too."""

import contextlib
import ctypes
import os

from brokerlab.inside import FOLDER
from brokerlab.network.naming import PREFIX

_MNT_DETACH = 2


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
