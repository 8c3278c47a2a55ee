"""amqtt, a broker in Python, in a process of its own.

Stock is amqtt's own default configuration: its plugins for logging, anonymous access and $SYS,
and nothing but the address changed. It has one thread.
What was published at QoS 0 it delivers at the QoS of the subscription, against MQTT 3.1.1 section 3.8.4.
"""

import importlib.metadata
import json
import sys
from pathlib import Path

from brokerlab.brokers.base import Abilities, Found, Missing, Node
from brokerlab.brokers.choice import check_choice
from brokerlab.study.values import BrokerChoice


class Amqtt:
    name = "amqtt"
    abilities = Abilities()

    def find(self) -> Found | Missing:
        try:
            return Found("amqtt", importlib.metadata.version("amqtt"))
        except importlib.metadata.PackageNotFoundError:
            return Missing("the Python package amqtt is not installed", hint="pip install amqtt")

    def node(self, choice: BrokerChoice, *, folder: Path, host: str, port: int) -> Node:
        check_choice(choice, self.abilities)
        config = {"listeners": {"default": {"type": "tcp", "bind": f"{host}:{port}"}}}
        return Node(
            argv=(sys.executable, "-P", "-m", "brokerlab.brokers.amqtt_server", str(folder.absolute() / "amqtt.json")),
            host=host,
            port=port,
            files={"amqtt.json": json.dumps(config, indent=2) + "\n"},
        )
