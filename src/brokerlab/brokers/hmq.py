"""hmq, a small broker in Go.

Stock is its shipped configuration, but for what a run needs:

    listeners  one at the asked address; its HTTP port and its WebSocket listen on all addresses and stay off
    plugins    none that writes what clients do into a file
    debug      errors only; it logs every client otherwise

There are no other presets: hmq has no limits to raise, no store, and no recommendations. It keeps nothing for a client
that is absent. Every clean session is told that it was there before.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from brokerlab.brokers.base import OPEN, Abilities, Departure, Found, Missing, Node, Security
from brokerlab.brokers.built import find_built, program_of
from brokerlab.brokers.choice import check_choice
from brokerlab.brokers.source import GoModule
from brokerlab.study.values import BrokerChoice, Transport

_MODULE = "github.com/fhmq/hmq"
_CONFIG = "hmq.json"
_WORKERS = 4096  # as shipped


class Hmq:
    name = "hmq"
    source = GoModule(_MODULE, "v1.5.6", _MODULE, "hmq")
    abilities = Abilities(
        protocols=("3.1", "3.1.1"),
        transports=(Transport.TCP, Transport.TLS),
        has_client_certificates=True,
        has_shared_subscriptions=True,
        is_scalable=True,
        departs=(Departure.IGNORES_SUBSCRIBED_QOS,),
        licence="Apache-2.0",
    )

    def find(self) -> Found | Missing:
        return find_built(self.name, self.source)

    def node(self, choice: BrokerChoice, *, folder: Path, host: str, port: int, security: Security = OPEN) -> Node:
        check_choice(choice, self.abilities, security)
        return Node(
            argv=(program_of(self.find(), choice), "-c", str(folder.absolute() / _CONFIG)),
            host=host,
            port=port,
            files={_CONFIG: json.dumps(_config(host, port, security), indent=2) + "\n"},
        )


def _config(host: str, port: int, security: Security) -> Mapping[str, object]:
    config: dict[str, object] = {
        "workerNum": _WORKERS,
        "debug": "release",
        "plugins": {"auth": "mock", "bridge": "mock"},
    }
    if not security.transport.is_encrypted:
        return config | {"host": host, "port": str(port)}
    files = {"certFile": str(security.certificate), "keyFile": str(security.key)}
    if security.authority:
        files["caFile"] = str(security.authority)
    return config | {
        "tlsHost": host,
        "tlsPort": str(port),
        "tlsInfo": {"verify": security.authority is not None, **files},
    }
