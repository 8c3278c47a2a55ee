"""Checks what a study asks of a driver: its preset, its options, and how clients get in."""

from collections.abc import Iterable

from brokerlab.brokers.base import OPEN, Abilities, Security
from brokerlab.errors import UserError
from brokerlab.study.nearest import listed, nearest
from brokerlab.study.values import BrokerChoice


def check_choice(choice: BrokerChoice, abilities: Abilities, security: Security = OPEN) -> None:
    """Refuses a preset, an option or a way in that the driver does not have."""
    _check(choice, "preset", [choice.preset], abilities.presets)
    _check(choice, "option", choice.options, abilities.options)
    _check(choice, "transport", [str(security.transport)], tuple(map(str, abilities.transports)))
    for is_asked, has_it, what in (
        (bool(security.users), abilities.has_credentials, "user names"),
        (security.authority is not None, abilities.has_client_certificates, "client certificates"),
        (bool(security.readable or security.writable), abilities.has_permissions, "topic permissions"),
    ):
        if is_asked and not has_it:
            raise UserError(f"broker {choice.name}: the driver {choice.driver} has no {what}")


def proposal(name: str, known: Iterable[str]) -> str:
    """A hint that names the nearest known name, and all of them."""
    names = sorted(known)
    close = nearest(name, names)
    return (f"did you mean {close}? " if close else "") + f"there is {listed(names)}"


def _check(choice: BrokerChoice, kind: str, names: Iterable[str], known: tuple[str, ...]) -> None:
    for name in names:
        if name not in known:
            raise UserError(
                f"broker {choice.name}: the driver {choice.driver} has no {kind} {name!r}", hint=proposal(name, known)
            )
