"""Programs out of the root file system of a newer Debian (source.DebianSuite), run on this machine's kernel.

    by_loader   a single program: its own loader and libraries are taken from there, everything else is this machine's;
                needs no privilege
    with_usr    a program that starts others: for it and its children /usr is the newer one, in a mount namespace that
                ends with them; needs root

In both the files, addresses and limits of a node mean what they mean for every other broker, and the process that
was started becomes the broker, so it dies with us.
"""

import os
import re
from pathlib import Path

from brokerlab.brokers.base import Found, Missing
from brokerlab.brokers.cache import how_to_install, installed

_ROOT = "root"
_STATUS = Path("var/lib/dpkg/status")  # what is installed there, one paragraph for each package
_BECOME = 'mount --bind "$1" /usr && shift && exec "$@"'


def find_in_suite(driver: str, package: str, program: str, version: str) -> Found | Missing:
    """The program (a path in the root) of the driver's own root, if its package has the version that is meant."""
    place = installed(driver)
    if place is None:
        return Missing(f"{driver} is not installed", hint=how_to_install(driver))
    there = version_in(place / _ROOT, package)
    if there != version:
        return Missing(f"{place} holds {package} {there or 'in no version'}", hint=how_to_install(driver))
    return Found(str(place / _ROOT / program), version)


def root_of(found: Found) -> Path:
    """The root file system that a program of a suite was found in."""
    return next(above for above in Path(found.program).parents if (above / _STATUS).exists())


def version_in(root: Path, package: str) -> str | None:
    """The upstream version of an installed package, without what Debian adds to it."""
    try:
        status = (root / _STATUS).read_text(encoding="utf-8")
    except OSError:
        return None
    paragraph = re.search(rf"^Package: {re.escape(package)}\n(?:.+\n)*?Version: (?:\d+:)?(\S+)$", status, re.MULTILINE)
    return paragraph.group(1).rpartition("-")[0] or paragraph.group(1) if paragraph else None


def by_loader(found: Found, *arguments: str) -> tuple[str, ...]:
    """The command that runs the program with the libraries of its own root."""
    loaders = sorted((root_of(found) / "usr/lib").glob("*-linux-gnu*/ld-linux*.so.*"))
    if not loaders:
        return (found.program, *arguments)  # not a glibc that we know: the kernel says what is missing
    return (str(loaders[0]), "--library-path", str(loaders[0].parent), found.program, *arguments)


def with_usr(found: Found, *arguments: str) -> tuple[str, ...]:
    """The command that runs the program where /usr is that of its root."""
    root = root_of(found)
    program = f"/{Path(found.program).relative_to(root)}"
    return ("unshare", "--mount", "sh", "-c", _BECOME, "sh", str(root / "usr"), program, *arguments)


def may_mount() -> bool:
    """Whether with_usr can work: only root may mount."""
    return os.geteuid() == 0
