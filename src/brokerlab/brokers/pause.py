"""The image whose container holds a network namespace of ours for others to join: nsenter and sleep of this machine.

It is made on the spot, because no image can be taken for granted, and stays with the engine: it is small, and has the
name of what is in it.
"""

import hashlib
import io
import re
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

from brokerlab.errors import UserError

if TYPE_CHECKING:
    from docker import DockerClient

REPOSITORY = "brokerlab-pause"


def pause_image(client: "DockerClient", *programs: str) -> str:
    """The image's name with its tag; it is made where the engine has none."""
    root = root_of(*programs)
    tag = hashlib.sha256(root).hexdigest()[:12]
    name = f"{REPOSITORY}:{tag}"
    if not client.images.list(name=name):
        client.api.import_image_from_data(root, repository=REPOSITORY, tag=tag)
    return name


def program(name: str) -> str:
    """Where a program of this machine is."""
    path = shutil.which(name)
    if path is None:
        raise UserError(f"containers in namespaces of ours need the program {name}", hint="install util-linux")
    return path


def root_of(*programs: str, files: tuple[tuple[str, bytes], ...] = ()) -> bytes:
    """A root file system as a tar file: programs with the libraries that they load, and other files."""
    buffer = io.BytesIO()
    names = {*programs, *(library for each in programs for library in _libraries(each))}
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name in sorted(names):
            _add(tar, name, Path(name).resolve().read_bytes(), mode=0o755)
        for name, content in files:
            _add(tar, name, content, mode=0o644)
    return buffer.getvalue()


def _add(tar: tarfile.TarFile, name: str, content: bytes, *, mode: int) -> None:
    entry = tarfile.TarInfo(name.removeprefix("/"))
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, io.BytesIO(content))


def _libraries(path: str) -> list[str]:
    """By ldd(1), which says nothing of a program without any."""
    told = subprocess.run(["ldd", path], check=False, capture_output=True, text=True).stdout  # noqa: S607
    return re.findall(r"(/\S+)", told)
