"""What an install needs of the machine: tools, a Python of some version, root."""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from brokerlab.brokers.install.workshop import output_of
from brokerlab.brokers.source import Archive, Crate, Debian, DebianSuite, GoModule, Maven, Npm, PyPI, Source

# Debian's package of each tool.
_PACKAGES = {
    "apt-get": "apt",
    "cargo": "cargo",
    "cmake": "cmake",
    "debootstrap": "debootstrap",
    "go": "golang-go",
    "javac": "default-jdk-headless",
    "mvn": "maven",
    "node": "nodejs",
    "npm": "npm",
    "protoc": "protobuf-compiler",
    "unshare": "util-linux",
}
_SYSTEM_PROGRAMS = "/usr/sbin"  # not on the PATH of every user


def find_tool(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path=_SYSTEM_PROGRAMS)


def tools_of(source: Source) -> tuple[str, ...]:
    """The programs that get a source."""
    match source:
        case Debian():
            return ("apt-get",)
        case DebianSuite():
            return ("apt-get", "debootstrap", "unshare")
        case Npm():
            return ("node", "npm")
        case Maven(launcher=launcher) | Archive(launcher=launcher):
            return ("mvn", "javac") if launcher else ("mvn",)
        case GoModule():
            return ("go",)
        case Crate(tools=tools):
            return ("cargo", *tools)
        case _:
            return ()


def needs_root(source: Source) -> bool:
    return isinstance(source, Debian | DebianSuite)


def missing_packages(source: Source) -> list[str]:
    """Debian's packages of the tools that are not here."""
    return [_PACKAGES[tool] for tool in tools_of(source) if find_tool(tool) is None]


def may_install_packages() -> bool:
    return os.geteuid() == 0 and find_tool("apt-get") is not None


def lacking(source: Source) -> str | None:
    """Why a source cannot be got here, and what to do; None when it can."""
    if needs_root(source) and os.geteuid() != 0:
        return "needs root: call it again with sudo"
    packages = missing_packages(source)
    if packages and not may_install_packages():
        return f"needs tools that are not here; on Debian: sudo apt-get install {' '.join(packages)}"
    if isinstance(source, PyPI) and source.python and find_python(source.python) is None:
        return (
            f"needs Python {source.python}, which is neither on the PATH nor in a pyenv; with pyenv: "
            f"pyenv install {source.python}"
        )
    return None


def find_python(version: str) -> Path | None:
    """A Python of that version, such as "3.8": on the PATH, or below pyenv's versions.

    Each is asked, because a pyenv has a pythonX.Y on the PATH that does not run unless that version is chosen.
    """
    return next((python for python in _pythons(version) if _is_python(python, version)), None)


def _pythons(version: str) -> Iterable[Path]:
    name = f"python{version}"
    if on_path := shutil.which(name):
        yield Path(on_path)
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    yield from sorted((pyenv / "versions").glob(f"{version}*/bin/{name}"))


def _is_python(python: Path, version: str) -> bool:
    said = output_of([python, "-c", "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"])
    return said is not None and said.strip() == version
