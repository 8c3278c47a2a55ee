"""A small disk for the data of a node, which can be filled: a file system in memory, mounted on the node's folder."""

import ctypes
import errno
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from brokerlab import inventory
from brokerlab.errors import UserError
from brokerlab.inventory import Thing

SIZE_BYTES = 64 << 20
_FILLER = "brokerlab-filler"
_PIECE = bytes(1 << 20)
_MNT_DETACH = 2
_libc = ctypes.CDLL(None, use_errno=True)


class SmallDisk:
    """A context manager around the mount; the node must be started after it and stopped before its end."""

    def __init__(self, folder: Path, *, node: int) -> None:
        self.folder, self.node = folder.absolute(), node
        self._thing = Thing("mount", str(self.folder))

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        inventory.note(self._thing)
        options = f"size={SIZE_BYTES},mode=0777".encode()
        if _libc.mount(b"brokerlab", str(self.folder).encode(), b"tmpfs", 0, options) != 0:
            inventory.cross_out(self._thing)
            reason = os.strerror(ctypes.get_errno())
            raise UserError(f"a small disk cannot be mounted on {self.folder}: {reason}", hint="only root can")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        unmount(self.folder)
        inventory.cross_out(self._thing)

    def fill(self) -> None:
        """Leaves no room at all."""
        descriptor = os.open(self.folder / _FILLER, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            size = len(_PIECE)
            while size:
                try:
                    os.write(descriptor, _PIECE[:size])
                except OSError as problem:
                    if problem.errno != errno.ENOSPC:
                        raise
                    size //= 2  # a smaller piece may still fit
        finally:
            os.close(descriptor)

    def clear(self) -> None:
        """Gives the room back."""
        (self.folder / _FILLER).unlink(missing_ok=True)


def unmount(folder: Path) -> None:
    """Also where somebody still has a file of it open; nothing where nothing is mounted."""
    if _libc.umount2(str(folder).encode(), _MNT_DETACH) != 0 and ctypes.get_errno() not in (
        errno.EINVAL,
        errno.ENOENT,
    ):
        raise UserError(f"{folder} stays mounted: {os.strerror(ctypes.get_errno())}", hint=f"umount {folder}")
