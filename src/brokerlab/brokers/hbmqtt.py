"""HBMQTT, a broker in Python that nobody maintains any more (2020); amqtt is its heir. It has one thread.

It needs Python 3.8: from 3.9 on it fails at the first CONNACK. Stock is the configuration of its own command, with

    topic-check      on, with the plugin that forbids three topics nobody uses: with the check off HBMQTT asks the
                     plugin of permissions all the same, which has none, and refuses every SUBSCRIBE
    auth             the plugin for anybody alone; with user names the one for passwords alone
    sys_interval     its counters are at most 1 s old instead of 10 s, or each run would wait for them
    log              warnings only, not a line for every client

There is no lossless preset, as its queues have no limits; and none that is durable or tuned, as it has no such keys.
It can forbid subscriptions but not publications, so that it counts as a broker without permissions.
"""

import json
from pathlib import Path

from brokerlab.brokers.amqtt import sys_counters
from brokerlab.brokers.base import OPEN, Abilities, Counter, Departure, Found, Missing, Node, Security
from brokerlab.brokers.cache import how_to_install, installed
from brokerlab.brokers.choice import check_choice
from brokerlab.brokers.source import PyPI
from brokerlab.errors import UserError
from brokerlab.study.values import BrokerChoice, Transport

_VERSION = "0.9.6"
_SERVER = Path(__file__).with_name("hbmqtt_server.py")
_CONFIG = "hbmqtt.json"
_LATE_S = 1.0


class Hbmqtt:
    name = "hbmqtt"
    source = PyPI(
        (
            f"hbmqtt=={_VERSION}",
            "docopt==0.6.2",
            "passlib==1.7.4",
            "PyYAML==6.0.3",
            "six==1.17.0",
            "transitions==0.9.3",
            "websockets==8.1",  # 9 lost what HBMQTT imports
        ),
        python="3.8",
    )
    abilities = Abilities(
        transports=tuple(Transport),
        has_credentials=True,
        departs=(Departure.RAISES_QOS, Departure.WIDENS_PLUS, Departure.CLOSES_INSTEAD_OF_REFUSING),
        licence="MIT",
    )

    def find(self) -> Found | Missing:
        place = installed(self.name)
        if place is None:
            return Missing("the Python package hbmqtt is not installed", hint=how_to_install(self.name))
        return Found(str(place / "venv" / "bin" / "python"), _VERSION)

    def node(self, choice: BrokerChoice, *, folder: Path, host: str, port: int, security: Security = OPEN) -> Node:
        check_choice(choice, self.abilities, security)
        found = self.find()
        if isinstance(found, Missing):
            raise UserError(f"broker {choice.name}: {found.reason}", hint=found.hint)
        listener: dict[str, object] = {
            "type": "ws" if security.transport.is_framed else "tcp",
            "bind": f"{host}:{port}",
        }
        if security.transport.is_encrypted:
            listener |= {"ssl": "on", "certfile": str(security.certificate), "keyfile": str(security.key)}
        auth: dict[str, object] = {"allow-anonymous": True, "plugins": ["auth_anonymous"]}
        secrets = {}
        if security.users and security.folder:
            passwords = security.folder / "hbmqtt.passwords"
            secrets[passwords.with_name(passwords.name + ".json")] = json.dumps(dict(security.users))
            auth = {"allow-anonymous": False, "password-file": str(passwords), "plugins": ["auth_file"]}
        config = {
            "listeners": {"default": listener},
            "sys_interval": int(_LATE_S),
            "auth": auth,
            "topic-check": {"enabled": True, "plugins": ["topic_taboo"]},
        }
        return Node(
            argv=(found.program, "-I", str(_SERVER), str(folder.absolute() / _CONFIG)),
            host=host,
            port=port,
            files={_CONFIG: json.dumps(config, indent=2) + "\n"},
            secrets=secrets,
        )

    def counters(self) -> tuple[Counter, ...]:
        return sys_counters(_LATE_S)
