"""amqtt, a broker in Python, in a process of its own.

Stock is amqtt's own default configuration: its plugins for logging, anonymous access and $SYS,
and nothing but the address changed. It has one thread.
What was published at QoS 0 it delivers at the QoS of the subscription, against MQTT 3.1.1 section 3.8.4.
"""

import importlib.metadata
import json
import sys
from collections.abc import Mapping
from pathlib import Path

from argon2 import PasswordHasher

from brokerlab.brokers.base import OPEN, Abilities, Departure, Found, Missing, Node, Security
from brokerlab.brokers.choice import check_choice
from brokerlab.brokers.source import Shipped
from brokerlab.study.values import BrokerChoice, Transport

# amqtt's default plugins without the one that lets anybody in: who names plugins gets no others.
_PLUGINS: dict[str, object] = {
    "amqtt.plugins.logging_amqtt.EventLoggerPlugin": {},
    "amqtt.plugins.logging_amqtt.PacketLoggerPlugin": {},
    "amqtt.plugins.sys.broker.BrokerSysPlugin": {"sys_interval": 20},
}
_FILE_PLUGIN = "amqtt.plugins.authentication.FileAuthPlugin"


class Amqtt:
    name = "amqtt"
    source = Shipped()
    abilities = Abilities(
        transports=tuple(Transport), has_credentials=True, departs=(Departure.RAISES_QOS,), licence="MIT"
    )

    def find(self) -> Found | Missing:
        try:
            return Found("amqtt", importlib.metadata.version("amqtt"))
        except importlib.metadata.PackageNotFoundError:
            return Missing("the Python package amqtt is not installed", hint="pip install amqtt")

    def node(self, choice: BrokerChoice, *, folder: Path, host: str, port: int, security: Security = OPEN) -> Node:
        check_choice(choice, self.abilities, security)
        listener: dict[str, object] = {
            "type": "ws" if security.transport.is_framed else "tcp",
            "bind": f"{host}:{port}",
        }
        if security.transport.is_encrypted:
            listener |= {"ssl": True, "certfile": str(security.certificate), "keyfile": str(security.key)}
        config: dict[str, object] = {"listeners": {"default": listener}}
        secrets = {}
        if security.users and security.folder:
            passwords = security.folder / "amqtt.passwords"
            secrets[passwords] = _password_file(security.users)
            config["plugins"] = _PLUGINS | {_FILE_PLUGIN: {"password_file": str(passwords)}}
        return Node(
            argv=(sys.executable, "-P", "-m", "brokerlab.brokers.amqtt_server", str(folder.absolute() / "amqtt.json")),
            host=host,
            port=port,
            files={"amqtt.json": json.dumps(config, indent=2) + "\n"},
            secrets=secrets,
        )


def _password_file(users: Mapping[str, str]) -> str:
    """Names with hashes of little work: amqtt checks them in the one thread that also serves."""
    hasher = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    return "".join(f"{name}:{hasher.hash(password)}\n" for name, password in users.items())
