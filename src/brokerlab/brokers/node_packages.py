"""Brokers that are packages for Node.js: found in the cache, and served by a small program of ours beside this file.

Each is a library, and its program tells it what a study asks for: where to listen and who may do what. The program
reads settings.json; passwords stand there as the path of a file of salted digests in the run's private folder.
"""

import hashlib
import json
import secrets
from collections.abc import Mapping
from pathlib import Path

from brokerlab.brokers.base import Broker, Found, Missing, Node, Seat, Security
from brokerlab.brokers.cache import how_to_install, installed
from brokerlab.brokers.choice import check_choice
from brokerlab.brokers.program import find_program
from brokerlab.errors import UserError
from brokerlab.study.values import BrokerChoice

SETTINGS = "settings.json"
_SALT_BYTES = 16


def find_package(driver: str, package: str, version: str) -> Found | Missing:
    """The installed package; its version is the one that the driver's source pins."""
    place = installed(driver)
    if place is None:
        return Missing(f"the package {package} for Node.js is not installed", hint=how_to_install(driver))
    if find_program("node") is None:
        return Missing("Node.js is not here", hint="apt-get install nodejs")
    return Found(str(place / "node_modules" / package), version)


def server_node(
    broker: Broker, choice: BrokerChoice, server: str, seat: Seat, security: Security, more: Mapping[str, object]
) -> Node:
    """The program `server` (beside this file) with the settings for this listener and `more`."""
    check_choice(choice, broker.abilities, security)
    found = broker.find()
    if isinstance(found, Missing):
        raise UserError(f"broker {choice.name}: {found.reason}", hint=found.hint)
    passwords = security.folder / "users.json" if security.users and security.folder else None
    settings: dict[str, object] = {
        "modules": str(Path(found.program).parent),
        "host": seat.host,
        "port": seat.port,
        "isFramed": security.transport.is_framed,
        "readable": security.readable,
        "writable": security.writable,
        "users": str(passwords) if passwords else None,
    }
    if security.transport.is_encrypted:
        settings |= {"certificate": str(security.certificate), "key": str(security.key)}
        if security.authority:
            settings["authority"] = str(security.authority)
    return Node(
        argv=(find_program("node") or "node", str(Path(__file__).with_name(server)), str(seat.folder / SETTINGS)),
        host=seat.host,
        port=seat.port,
        files={SETTINGS: json.dumps(settings | dict(more), indent=2) + "\n"},
        secrets={passwords: _password_file(security.users)} if passwords else {},
    )


def _password_file(users: Mapping[str, str]) -> str:
    return json.dumps({name: _digested(password) for name, password in users.items()})


def _digested(password: str) -> dict[str, str]:
    """One round: the file lives as long as the run, and the broker checks it in the thread that also serves."""
    salt = secrets.token_bytes(_SALT_BYTES)
    return {"salt": salt.hex(), "digest": hashlib.sha256(salt + password.encode()).hexdigest()}
