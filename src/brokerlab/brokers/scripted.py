"""Our own scripted broker as a driver: it makes the faults that its options say, to prove the meter with.

Do not compare it with brokers: it exists so that tables can be checked against a known truth.
The options and their meaning are those of study/script.py. What it did, and when, is in deeds.csv beside its script
(load/deeds.py).
"""

import json
import sys
from pathlib import Path

from brokerlab import __version__
from brokerlab.brokers.base import OPEN, Abilities, Found, Missing, Node, Security
from brokerlab.brokers.choice import check_choice
from brokerlab.brokers.source import Shipped
from brokerlab.study.script import FAULTS, read_fault
from brokerlab.study.values import BrokerChoice

_MODULE = "brokerlab.load.scripted"  # by name: a driver describes, and imports no load


class Scripted:
    name = "scripted"
    source = Shipped("nothing: it is a part of brokerlab")
    abilities = Abilities(has_shared_subscriptions=True, options=FAULTS)

    def find(self) -> Found | Missing:
        return Found(_MODULE, __version__)

    def check_option(self, name: str, value: object) -> None:
        read_fault(name, value)

    def node(self, choice: BrokerChoice, *, folder: Path, host: str, port: int, security: Security = OPEN) -> Node:
        check_choice(choice, self.abilities, security)
        script = {"host": host, "port": port, "deeds": "deeds.csv", "faults": dict(choice.options)}
        return Node(
            argv=(sys.executable, "-P", "-m", _MODULE, str(folder.absolute() / "script.json")),
            host=host,
            port=port,
            files={"script.json": json.dumps(script, indent=2) + "\n"},
        )
