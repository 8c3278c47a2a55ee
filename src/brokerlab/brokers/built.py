"""Brokers that brokers/install builds from a Go module or a crate: one program, whose version is that of its source."""

import json
from pathlib import Path

from brokerlab.brokers.base import Abilities, Found, Missing, Security
from brokerlab.brokers.cache import how_to_install, installed
from brokerlab.brokers.source import Crate, GoModule
from brokerlab.errors import UserError
from brokerlab.study.values import BrokerChoice, Transport

# What most of them have.
MOSTLY = Abilities(
    protocols=("3.1", "3.1.1", "5.0"), transports=tuple(Transport), has_shared_subscriptions=True, is_scalable=True
)


def find_built(name: str, source: GoModule | Crate) -> Found | Missing:
    """The program of a driver in the cache; it is not asked for its version, most of these do not know it."""
    place = installed(name)
    if place is None:
        return Missing(f"{name} is not installed", hint=how_to_install(name))
    program = place / "bin" / source.program
    if not program.is_file():
        return Missing(f"{program} is not there", hint=how_to_install(name))
    return Found(str(program), source.version.removeprefix("v"))


def program_of(found: Found | Missing, choice: BrokerChoice) -> str:
    """The program's path; a broker that is missing is the user's to install."""
    if isinstance(found, Missing):
        raise UserError(f"broker {choice.name}: {found.reason}", hint=found.hint)
    return found.program


def secret(security: Security, name: str) -> Path:
    """Where a file with passwords goes."""
    if security.folder is None:
        raise ValueError("a private folder is needed for passwords")
    return security.folder / name


def toml_string(text: object) -> str:
    """A basic string of TOML, which takes JSON's escapes."""
    return json.dumps(str(text), ensure_ascii=False)
