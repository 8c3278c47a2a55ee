"""comqtt, a fork of Mochi in Go.

Stock is its shipped configuration for a single node, but for what a run needs:

    listeners  one at the asked address; comqtt always has one for TCP, one for WebSocket and one for HTTP, so the
               others get free ports
    log        warnings, on its standard output and not in a file

As shipped it keeps sessions and messages in a bolt file, with a synchronisation for each message at QoS 1 and 2: stock
is what is called durable elsewhere. After a stop retained messages come back from it, and messages that wait for an
absent client do not.

    tuned      the same in memory

There is no lossless: its queue has the most messages that packet identifiers allow as shipped, 65,535 for each client,
and drops what is above. Users are only in a database or a service beside it. What waited for an absent client it sends
out of order when the client comes back, and the last of ten at QoS 1 not at all. As Mochi it refuses a subscription
whose packet identifier is that of a delivery in flight, with 0x91 also at 3.1.1.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from brokerlab.brokers.base import OPEN, Count, Counter, Found, Missing, Node, Security
from brokerlab.brokers.built import MOSTLY, find_built, program_of
from brokerlab.brokers.choice import check_choice
from brokerlab.brokers.port import free_port
from brokerlab.brokers.source import GoModule
from brokerlab.brokers.telling import json_numbers
from brokerlab.study.values import BrokerChoice

_MODULE = "github.com/wind-c/comqtt/v2"
_CONFIG = "comqtt.yml"
_STORE = "store"
_MEMORY, _BOLT = range(2)
_WARNINGS = 4
_TEXT = _CONSOLE = 0

_OPTIONS: Mapping[str, object] = {
    "client-write-buffer-size": 1024,
    "client-read-buffer-size": 1024,
    "sys-topic-resend-interval": 1,
    "inline-client": True,
    "capabilities": {
        "maximum-message-expiry-interval": 86_400,
        "maximum-session-expiry-interval": 2**32 - 1,
        "maximum-client-writes-pending": 65_535,
        "maximum-packet-size": 0,
        "receive-maximum": 1024,
        "topic-alias-maximum": 65_535,
        "maximum-qos": 2,
        "retain-available": 1,
        "wildcard-sub-available": 1,
        "sub-id-available": 1,
        "shared-sub-available": 1,
        "minimum-protocol-version": 3,
    },
}


class Comqtt:
    name = "comqtt"
    source = GoModule(_MODULE, "v2.6.0", f"{_MODULE}/cmd/single", "comqtt")
    abilities = replace(
        MOSTLY,
        presets=("stock", "tuned"),
        has_client_certificates=True,
        licence="MIT",
    )

    def find(self) -> Found | Missing:
        return find_built(self.name, self.source)

    def node(self, choice: BrokerChoice, *, folder: Path, host: str, port: int, security: Security = OPEN) -> Node:
        check_choice(choice, self.abilities, security)
        here = folder.absolute()
        http = f"{host}:{free_port(host)}"
        config = {
            "storage-way": _MEMORY if choice.preset == "tuned" else _BOLT,
            "storage-path": str(here / _STORE / "comqtt.db"),
            "auth": {"way": 0, "datasource": 0},
            "mqtt": _mqtt(host, port, http, security),
            "log": {"enable": True, "format": _TEXT, "output": _CONSOLE, "level": _WARNINGS},
        }
        return Node(
            argv=(program_of(self.find(), choice), "--conf", str(here / _CONFIG)),
            host=host,
            port=port,
            files={_CONFIG: json.dumps(config, indent=2) + "\n"},
            scratch=(_STORE,),
            page=f"http://{http}/api/v1/mqtt/stat/overall",
        )

    def counters(self) -> tuple[Counter, ...]:
        return (
            Counter("messages_received", Count.RECEIVED, is_exact=True),
            Counter("messages_sent", Count.SENT, is_exact=True),
            Counter("messages_dropped", Count.DROPPED, is_exact=True),
            Counter("clients_connected", Count.CONNECTIONS),
            Counter("subscriptions", Count.SUBSCRIPTIONS),
            Counter("retained", Count.RETAINED, has_sys=True, note="includes comqtt's own messages on $SYS"),
        )

    def read_page(self, text: str) -> Mapping[str, float]:
        return json_numbers(text)


def _mqtt(host: str, port: int, http: str, security: Security) -> Mapping[str, object]:
    """Its file is YAML, of which JSON is a part."""
    asked, other = f"{host}:{port}", f"{host}:{free_port(host)}"
    framed = security.transport.is_framed
    mqtt: dict[str, object] = {
        "tcp": other if framed else asked,
        "ws": asked if framed else other,
        "http": http,
        "options": _OPTIONS,
    }
    if security.transport.is_encrypted:
        mqtt["tls"] = {"server-cert": str(security.certificate), "server-key": str(security.key)} | (
            {"ca-cert": str(security.authority)} if security.authority else {}
        )
    return mqtt
