"""rumqttd, a broker in Rust, as the package iotcore carries it.

Stock is what `python -m iotcore` does without a configuration file: 10,000 connections, payloads
up to 20,480 bytes, 100 messages in flight. The one change beside the address is the log level:
below CRITICAL it logs a line for every packet, which costs it more than half of its speed.
It has a fixed number of threads: one that routes and one for each listener.
What was published at QoS 0 it delivers at the QoS of the subscription, against MQTT 3.1.1 section 3.8.4.
"""

import importlib.metadata
import sys
from pathlib import Path

from brokerlab.brokers.base import OPEN, Abilities, Departure, Found, Missing, Node, Security
from brokerlab.brokers.choice import check_choice
from brokerlab.brokers.source import Shipped
from brokerlab.study.values import BrokerChoice


class Rumqttd:
    name = "rumqttd"
    source = Shipped()
    abilities = Abilities(
        has_shared_subscriptions=True,
        payload_limit_bytes=20_480,
        departs=(Departure.RAISES_QOS,),
        licence="Apache-2.0",
    )

    def find(self) -> Found | Missing:
        try:
            return Found("iotcore", f"iotcore {importlib.metadata.version('iotcore')}")
        except importlib.metadata.PackageNotFoundError:
            return Missing("the Python package iotcore is not installed", hint="pip install iotcore")

    def node(self, choice: BrokerChoice, *, folder: Path, host: str, port: int, security: Security = OPEN) -> Node:
        del folder  # it has no files
        check_choice(choice, self.abilities, security)
        address = ("--listen", host, "--port", str(port))
        return Node(
            argv=(sys.executable, "-P", "-m", "iotcore", *address, "--log-level", "CRITICAL"), host=host, port=port
        )
