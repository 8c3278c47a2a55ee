"""Mochi, a broker in Go that is a library with a small program around it.

The program is one of ours (mochi_server.go), because Mochi's own reads a configuration that cannot name certificates;
it does the same otherwise. Stock is Mochi's defaults, but for what a run needs:

    listeners                  one at the asked address, and one that tells its counters
    auth                       everybody may do everything; with user names, those and what they are permitted
    sys_topic_resend_interval  its counters are at most 1 s old
    logging                    warnings; it logs every client otherwise

    lossless  65,535 messages in flight and in the queue of each client instead of 8,192, and as many from a publisher
              instead of 1,024: the most that packet identifiers allow. Above that Mochi still drops.
    durable   a Pebble store that is synchronised with every write. Sessions, retained messages and what waits for an
              absent client survive a kill, but for a message that Mochi acknowledged in the moment before.

There is no tuned, because its documentation recommends nothing.

What waited for an absent client Mochi sends out of order when the client comes back. A permission for a/b is also one
for a/b/c. It refuses a subscription whose packet identifier is that of a delivery in flight, with 0x91 also at 3.1.1.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from brokerlab.brokers.base import OPEN, Count, Counter, Found, Missing, Node, Security
from brokerlab.brokers.built import MOSTLY, find_built, program_of, secret
from brokerlab.brokers.choice import check_choice
from brokerlab.brokers.port import free_port
from brokerlab.brokers.source import GoModule
from brokerlab.brokers.telling import json_numbers
from brokerlab.study.values import BrokerChoice

_MODULE = "github.com/mochi-mqtt/server/v2"
_CONFIG = "mochi.json"
_STORE = "store"

# At QoS 0, and at QoS 1 and 2 also where the limit of messages in flight is reached.
_DROPPED = "messages_dropped+inflight_dropped"

_DENY, _READ, _WRITE, _READ_AND_WRITE = range(4)

# A part of this block is not possible: what is left out is zero, not the default. All but three are the defaults.
_MOST = 65_535
_LOSSLESS: Mapping[str, int] = {
    "maximum_clients": 2**63 - 1,
    "maximum_message_expiry_interval": 86_400,
    "maximum_client_writes_pending": _MOST,
    "maximum_session_expiry_interval": 2**32 - 1,
    "maximum_packet_size": 0,
    "receive_maximum": _MOST,
    "maximum_inflight": _MOST,
    "topic_alias_maximum": _MOST,
    "shared_sub_available": 1,
    "minimum_protocol_version": 3,
    "maximum_qos": 2,
    "retain_available": 1,
    "wildcard_sub_available": 1,
    "sub_id_available": 1,
}


class Mochi:
    name = "mochi"
    source = GoModule(_MODULE, "v2.7.9", "", "mochi", launcher=Path(__file__).with_name("mochi_server.go"))
    abilities = replace(
        MOSTLY,
        presets=("stock", "lossless", "durable"),
        has_credentials=True,
        has_client_certificates=True,
        has_permissions=True,
        licence="MIT",
    )

    def find(self) -> Found | Missing:
        return find_built(self.name, self.source)

    def node(self, choice: BrokerChoice, *, folder: Path, host: str, port: int, security: Security = OPEN) -> Node:
        check_choice(choice, self.abilities, security)
        here = folder.absolute()
        counters = f"{host}:{free_port(host)}"
        config = _config(choice.preset, f"{host}:{port}", counters, store=here / _STORE, security=security)
        return Node(
            argv=(program_of(self.find(), choice), "-config", str(here / _CONFIG), *_arguments(security)),
            host=host,
            port=port,
            files={_CONFIG: json.dumps(config, indent=2) + "\n"},
            secrets={_ledger(security): json.dumps(_rules(security))} if security.users else {},
            scratch=(_STORE,) if choice.preset == "durable" else (),
            page=f"http://{counters}/",
        )

    def counters(self) -> tuple[Counter, ...]:
        """Its count of messages in flight is left out: it can be below zero."""
        return (
            Counter("messages_received", Count.RECEIVED, is_exact=True),
            Counter("messages_sent", Count.SENT, is_exact=True),
            Counter(_DROPPED, Count.DROPPED, is_exact=True, note="the sum of its two counters"),
            Counter("clients_connected", Count.CONNECTIONS),
            Counter("subscriptions", Count.SUBSCRIPTIONS),
            Counter("retained", Count.RETAINED, has_sys=True, note="includes Mochi's own messages on $SYS"),
        )

    def read_page(self, text: str) -> Mapping[str, float]:
        numbers = json_numbers(text)
        return numbers | {_DROPPED: sum(numbers[name] for name in _DROPPED.split("+"))}


def _config(
    preset: str, address: str, counters: str, *, store: Path, security: Security
) -> Mapping[str, object]:  # fmt: skip
    options: dict[str, object] = {"sys_topic_resend_interval": 1}
    if preset == "lossless":
        options["capabilities"] = _LOSSLESS
    hooks: dict[str, object] = {}
    if not security.users:
        hooks["auth"] = {"allow_all": True}
    if preset == "durable":
        hooks["storage"] = {"pebble": {"path": str(store), "mode": "Sync"}}
    return {
        "listeners": [
            {"type": "ws" if security.transport.is_framed else "tcp", "id": "mqtt", "address": address},
            {"type": "sysinfo", "id": "counters", "address": counters},
        ],
        "hooks": hooks,
        "options": options,
        "logging": {"level": "WARN"},
    }


def _arguments(security: Security) -> tuple[str, ...]:
    arguments: list[str] = []
    if security.users:
        arguments += ["-ledger", str(_ledger(security))]
    if security.transport.is_encrypted:
        arguments += ["-certificate", str(security.certificate), "-key", str(security.key)]
        if security.authority:
            arguments += ["-authority", str(security.authority)]
    return tuple(arguments)


def _ledger(security: Security) -> Path:
    return secret(security, "mochi-ledger.json")


def _rules(security: Security) -> Mapping[str, object]:
    """Who gets in, and one rule for all on topics, of which a filter that permits wins over one that forbids."""
    users = {name: {"username": name, "password": password} for name, password in security.users.items()}
    if not (security.readable or security.writable):
        return {"users": users}
    filters = {"#": _DENY} | dict.fromkeys(security.readable, _READ)
    for writable in security.writable:
        filters[writable] = _READ_AND_WRITE if writable in security.readable else _WRITE
    return {"users": users, "acl": [{"filters": filters}]}
