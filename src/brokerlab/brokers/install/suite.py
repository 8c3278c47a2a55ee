"""Packages of a newer Debian, in a root file system of their own, checked by the signatures of Debian's archive.

The mirror is the one that this machine's apt uses. Keys of newer suites reach an older Debian late, or not at all;
what is missing comes from the package debian-archive-keyring of Debian's stable suite, which the older keys vouch for.

debootstrap mounts /proc and runs the packages' scripts: it gets a mount and a process namespace of its own, so that
neither a mount nor a process is left, however it ends.
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from brokerlab.brokers.install.needs import find_tool
from brokerlab.brokers.install.receipt import Made
from brokerlab.brokers.install.workshop import Workshop, output_of
from brokerlab.brokers.source import DebianSuite
from brokerlab.errors import RunError, UserError

_KEYRING = Path("usr/share/keyrings/debian-archive-keyring.gpg")
_PACKAGE = "debian-archive-keyring"
_VOUCHES = "stable"
_KEYS = "keys"  # a folder that is gone when the broker is complete
_SCRIPTS = Path("/usr/share/debootstrap/scripts")
_NEWEST_SCRIPT = "sid"  # for suites that are newer than debootstrap
_OWN_NAMESPACES = ("--mount", "--pid", "--fork", "--kill-child")
_PROGRAMS = ("/usr/bin/", "/usr/sbin/", "/bin/", "/sbin/")


def install_suite(source: DebianSuite, shop: Workshop) -> Made:
    mirror, root = _mirror(), shop.folder / "root"
    keyring = _keyring_of(source.suite, mirror, shop)
    script = source.suite if (_SCRIPTS / source.suite).exists() else _NEWEST_SCRIPT
    shop.run(
        [
            *("unshare", *_OWN_NAMESPACES, find_tool("debootstrap") or "debootstrap"),
            *("--variant=minbase", f"--include={','.join(source.packages)}"),
            *("--force-check-gpg", f"--keyring={keyring}"),
            *(source.suite, root, mirror, script),
        ],
        doing=f"debootstrap {source.suite} with {' '.join(source.packages)}",
    )
    for package in (root / "var/cache/apt/archives").glob("*.deb"):
        package.unlink()
    shutil.rmtree(shop.folder / _KEYS)
    return Made(_version_of(source.packages[0], root), tuple(_programs_of(source.packages, root)))


def _mirror() -> str:
    """The address from which this machine gets Debian's packages."""
    listed = output_of(["apt-get", "indextargets", "--format", "$(LABEL) $(REPO_URI)", "Created-By: Packages"])
    for line in (listed or "").splitlines():
        label, _, address = line.partition(" ")
        if label == "Debian":
            return address
    raise UserError(
        "apt knows no mirror of Debian on this machine", hint="apt-get update, on a Debian whose sources name one"
    )


@dataclass(frozen=True, slots=True)
class _Archive:
    """One suite as the only source of apt, with state of its own."""

    suite: str
    mirror: str
    keyring: Path
    shop: Workshop

    def apt(self, *command: str, doing: str) -> None:
        state = self.shop.folder / _KEYS / self.suite
        for folder in ("lists", "archives"):
            (state / folder / "partial").mkdir(parents=True, exist_ok=True)
        sources = state / "sources.list"
        sources.write_text(f"deb [signed-by={self.keyring}] {self.mirror} {self.suite} main\n", encoding="utf-8")
        options = {
            "Dir::Etc::SourceList": sources,
            "Dir::Etc::SourceParts": "/dev/null",
            "Dir::State::Lists": state / "lists",
            "Dir::Cache": state,
            "Acquire::Languages": "none",
            "APT::Sandbox::User": "root",  # apt's own user may not read the cache of another
            "APT::Update::Error-Mode": "any",
        }
        told = [f"--option={name}={value}" for name, value in options.items()]
        self.shop.run(["apt-get", "--quiet", *told, *command], doing=doing)

    def check(self) -> None:
        """A RunError unless the suite is signed by a key of the keyring."""
        self.apt("update", doing=f"checking the signature of {self.suite}")


def _keyring_of(suite: str, mirror: str, shop: Workshop) -> Path:
    """A keyring that verifies the suite."""
    own = Path("/") / _KEYRING
    if not own.is_file():
        raise UserError(
            f"{own} is not here, so nothing vouches for Debian's archive", hint=f"apt-get install {_PACKAGE}"
        )
    try:
        _Archive(suite, mirror, own, shop).check()
    except RunError:
        newer = _keyring_from(_Archive(_VOUCHES, mirror, own, shop))
        _Archive(suite, mirror, newer, shop).check()
        return newer
    return own


def _keyring_from(archive: _Archive) -> Path:
    """The keyring that a suite of Debian ships."""
    archive.check()
    archive.apt("download", _PACKAGE, doing=f"{_PACKAGE} of {archive.suite}")
    (fetched,) = archive.shop.folder.glob(f"{_PACKAGE}_*.deb")
    unpacked = archive.shop.folder / _KEYS / "unpacked"
    archive.shop.run(["dpkg-deb", "--extract", fetched, unpacked], doing=f"unpacking {_PACKAGE}")
    fetched.unlink()
    return unpacked / _KEYRING


def _version_of(package: str, root: Path) -> str:
    """The broker's own version: Debian's without the epoch before it and the revision after it."""
    said = output_of(["dpkg-query", f"--admindir={root}/var/lib/dpkg", "--show", "--showformat=${Version}", package])
    if not said:
        raise RunError(f"{package} is not in {root}")
    return said.partition(":")[2].rpartition("-")[0] if ":" in said else said.rpartition("-")[0] or said


def _programs_of(packages: tuple[str, ...], root: Path) -> Iterator[Path]:
    for package in packages:
        listed = output_of(["dpkg-query", f"--admindir={root}/var/lib/dpkg", "--listfiles", package]) or ""
        for name in listed.splitlines():
            path = root / name.lstrip("/")
            if name.startswith(_PROGRAMS) and path.is_file() and not path.is_symlink():
                yield path
