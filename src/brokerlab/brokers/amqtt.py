"""amqtt, a broker in Python, in a process of its own.

Stock is amqtt's own default configuration: its plugins for logging, anonymous access and $SYS, and nothing changed
but the address, and its counters are at most 1 s old instead of 20 s, or each run would wait for them.
It has one thread.

    tuned     without the two plugins that look at every packet and every event to log it

There is no lossless preset, as amqtt's queues have no limits; but an anonymous client's session ends with its
connection, so that only clients with a user name find messages after they were away. There is no durable preset:
its store on disk needs packages that do not come with it.
What was published at QoS 0 it delivers at the QoS of the subscription, against MQTT 3.1.1 section 3.8.4.
"""

import importlib.metadata
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from argon2 import PasswordHasher

from brokerlab.brokers.base import OPEN, Abilities, Count, Counter, Departure, Found, Missing, Node, Security
from brokerlab.brokers.choice import check_choice
from brokerlab.brokers.source import Shipped
from brokerlab.study.values import BrokerChoice, Transport

_LATE_S = 1.0

# amqtt's default plugins without the one that lets anybody in: who names plugins gets no others.
_PLUGINS: dict[str, object] = {
    "amqtt.plugins.logging_amqtt.EventLoggerPlugin": {},
    "amqtt.plugins.logging_amqtt.PacketLoggerPlugin": {},
    "amqtt.plugins.sys.broker.BrokerSysPlugin": {"sys_interval": int(_LATE_S)},
}
_LOGGERS = tuple(name for name in _PLUGINS if ".logging_amqtt." in name)
_ANYBODY_PLUGIN = "amqtt.plugins.authentication.AnonymousAuthPlugin"
_FILE_PLUGIN = "amqtt.plugins.authentication.FileAuthPlugin"
_TOPICS_PLUGIN = "amqtt.plugins.topic_checking.TopicAccessControlListPlugin"
_ANYBODY = "anonymous"  # what the plugin of permissions calls a client without a name


class Amqtt:
    name = "amqtt"
    source = Shipped()
    abilities = Abilities(
        presets=("stock", "tuned"),
        transports=tuple(Transport),
        has_credentials=True,
        has_permissions=True,
        departs=(Departure.RAISES_QOS,),
        licence="MIT",
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
        passwords = security.folder / "amqtt.passwords" if security.users and security.folder else None
        config = {"listeners": {"default": listener}, "plugins": _plugins(choice.preset, security, passwords)}
        return Node(
            argv=(sys.executable, "-P", "-m", "brokerlab.brokers.amqtt_server", str(folder.absolute() / "amqtt.json")),
            host=host,
            port=port,
            files={"amqtt.json": json.dumps(config, indent=2) + "\n"},
            secrets={passwords: _password_file(security.users)} if passwords else {},
        )

    def counters(self) -> tuple[Counter, ...]:
        """HBMQTT tells the same."""
        return sys_counters(_LATE_S)


def sys_counters(late_s: float) -> tuple[Counter, ...]:
    """What amqtt and HBMQTT tell below $SYS."""

    def counter(topic: str, count: Count, **more: Any) -> Counter:
        return Counter(f"$SYS/broker/{topic}", count, late_s=late_s, **more)

    return (
        counter("messages/publish/received", Count.RECEIVED, is_exact=True),
        counter(
            "messages/publish/sent",
            Count.SENT,
            has_sys=True,
            note="with what it tells on $SYS, of which some is on its way when it counts",
        ),
        counter("clients/connected", Count.CONNECTIONS),
        counter("messages/subscriptions/count", Count.SUBSCRIPTIONS),
        counter("messages/retained/count", Count.RETAINED, has_sys=True, note="its own version on $SYS among them"),
    )


def _plugins(preset: str, security: Security, passwords: Path | None) -> dict[str, object]:
    plugins = {name: keys for name, keys in _PLUGINS.items() if preset == "stock" or name not in _LOGGERS}
    plugins |= (
        {_FILE_PLUGIN: {"password_file": str(passwords)}} if passwords else {_ANYBODY_PLUGIN: {"allow_anonymous": True}}
    )
    if security.readable or security.writable:
        users = list(security.users) or [_ANYBODY]
        plugins[_TOPICS_PLUGIN] = {
            "acl": dict.fromkeys(users, security.readable),
            "publish_acl": dict.fromkeys(users, security.writable),
        }
    return plugins


def _password_file(users: Mapping[str, str]) -> str:
    """Names with hashes of little work: amqtt checks them in the one thread that also serves."""
    hasher = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    return "".join(f"{name}:{hasher.hash(password)}\n" for name, password in users.items())
