"""Where a broker comes from: pinned names in a registry, never an address.

A source only says what to get; brokers/install gets it. Everything but Debian's own packages goes into a folder of
the user's cache, one for each broker and version (cache.py), in this layout:

    PyPI         venv/bin/…             a virtual environment
    Npm          node_modules/…         with package.json and package-lock.json beside it
    Maven        lib/*.jar              and classes/ of the launcher, where there is one
    Archive      dist/…                 what a tarball from Maven Central holds, without its first folder; classes/ too
    GoModule     bin/PROGRAM
    Crate        bin/PROGRAM
    DebianSuite  root/…                 the root file system of a newer Debian
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Shipped:
    """Comes with brokerlab, as one of its own dependencies or as a part of it."""

    how: str = "make setup"


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Cannot be installed by us: somebody else runs it, or no registry that we use has it."""

    how: str  # what the user has to do


@dataclass(frozen=True, slots=True)
class ContainerImage(Elsewhere):
    """An image that the user's container engine has, or may pull; brokerlab pulls none."""

    image: str = ""  # with its tag; empty: the study names it


@dataclass(frozen=True, slots=True)
class Debian:
    """Packages of the Debian that this machine runs; needs root."""

    packages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DebianSuite:
    """Packages of a newer Debian, in a root file system of their own; needs root."""

    suite: str
    packages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PyPI:
    """Packages in a virtual environment of their own."""

    requirements: tuple[str, ...]  # each pinned: name==version
    python: str | None = None  # such as "3.8", where it needs another one than ours


@dataclass(frozen=True, slots=True)
class Npm:
    """Packages below a package.json of their own; needs Node.js."""

    packages: Mapping[str, str]  # name -> version
    overrides: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Maven:
    """Jars with all that they need at run time; needs Maven and a Java compiler where there is a launcher."""

    artifacts: tuple[str, ...]  # group:artifact:version
    launcher: Path | None = None  # a Java source file of ours
    exclude: tuple[str, ...] = ()  # group:artifact that must not come along


@dataclass(frozen=True, slots=True)
class Archive:
    """A tarball from Maven Central; needs Maven and a Java compiler where there is a launcher."""

    artifact: str  # group:artifact:version:packaging:classifier
    launcher: Path | None = None  # a Java source file of ours


@dataclass(frozen=True, slots=True)
class GoModule:
    """A program built from a Go module; needs Go.

    With a launcher the program is that file of ours, built in a module of its own that requires the other.
    """

    module: str
    version: str
    package: str  # the program's, of that module; empty with a launcher
    program: str
    launcher: Path | None = None  # a Go source file of ours, of package main


@dataclass(frozen=True, slots=True)
class Crate:
    """A program built from a crate; needs Cargo."""

    crate: str
    version: str
    program: str
    is_locked: bool = True  # whether it is built with the versions that its author had
    is_slow: bool = False  # whether it takes longer than five minutes
    tools: tuple[str, ...] = ()  # programs that its build asks for beside Cargo


Source = Shipped | Elsewhere | Debian | DebianSuite | PyPI | Npm | Maven | Archive | GoModule | Crate


def version_in(source: Source) -> str | None:
    """The version of the broker that a source pins; None where it is what the machine has."""
    match source:
        case GoModule() | Crate():
            return source.version.removeprefix("v")
        case Npm():
            return next(iter(source.packages.values()))
        case Maven():
            return source.artifacts[0].rpartition(":")[2]
        case Archive():
            return source.artifact.split(":")[2]
        case PyPI():
            return source.requirements[0].partition("==")[2]
    return None
