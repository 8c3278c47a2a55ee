"""Our own scripted broker as a driver: it makes the faults that its options say, to prove the meter with.

Do not compare it with brokers: it exists so that tables can be checked against a known truth.
The options and their meaning are those of load/faults.py. What it did, and when, is in deeds.csv beside its script
(load/deeds.py).
"""

import json
import sys
from pathlib import Path

from brokerlab import __version__
from brokerlab.brokers.base import OPEN, Abilities, Found, Missing, Node, Security
from brokerlab.brokers.choice import check_choice
from brokerlab.brokers.source import Shipped
from brokerlab.study.values import BrokerChoice

_MODULE = "brokerlab.load.scripted"  # by name: a driver describes, and imports no load
_FAULTS = (
    "drop",
    "ignore",
    "reject",
    "unacknowledged",
    "duplicate",
    "dup_flag",
    "retransmit",
    "delay_ms",
    "swap",
    "hold",
    "foreign",
    "misroute",
    "per_filter",
    "grant_qos",
    "refuse_subscription",
    "refuse_connection",
    "cut",
    "part",
    "again",
    "cut_answer",
    "malformed",
    "malformed_answer",
    "malformed_kind",
    "malformed_grant",
    "will_lost",
    "will_twice",
    "will_anyway",
    "stall_ms",
    "answer_ms",
    "pubcomp_ms",
    "suback_ms",
    "connack_ms",
    "service_ms",
)


class Scripted:
    name = "scripted"
    source = Shipped("nothing: it is a part of brokerlab")
    abilities = Abilities(has_shared_subscriptions=True, options=_FAULTS)

    def find(self) -> Found | Missing:
        return Found(_MODULE, __version__)

    def node(self, choice: BrokerChoice, *, folder: Path, host: str, port: int, security: Security = OPEN) -> Node:
        check_choice(choice, self.abilities, security)
        script = {"host": host, "port": port, "deeds": "deeds.csv", "faults": dict(choice.options)}
        return Node(
            argv=(sys.executable, "-P", "-m", _MODULE, str(folder.absolute() / "script.json")),
            host=host,
            port=port,
            files={"script.json": json.dumps(script, indent=2) + "\n"},
        )
