"""RMQTT, a broker in Rust.

Stock is its defaults, but for what a run needs:

    listener    one at the asked address; RMQTT's own calls between nodes get a free port of the same address, and so
                do its counters
    plugins     retained messages and shared subscriptions, which are off otherwise
    anonymous   everybody may do everything; with user names, those and what they are permitted
    busy check  off: it would refuse clients while the load average of the machine is high
    log         warnings, on its standard output

    lossless    a queue of 1,000,000 messages for each client instead of 1,000; above it drops, and counts that
    tuned       small packets are sent at once (TCP_NODELAY)

There is no durable: its stores write behind, and messages for absent clients survive only in a Redis beside it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from brokerlab.brokers.base import OPEN, Count, Counter, Found, Missing, Node, Security
from brokerlab.brokers.built import MOSTLY, find_built, program_of, secret, toml_string
from brokerlab.brokers.choice import check_choice
from brokerlab.brokers.port import free_port
from brokerlab.brokers.source import Crate
from brokerlab.brokers.telling import json_numbers
from brokerlab.study.values import BrokerChoice

_CONFIG = "rmqtt.toml"
_PLUGINS = "plugins"
_LOSSLESS_QUEUE = 1_000_000

_COMMON = """\
[node]
id = 1

[node.busy]
check_enable = false

[rpc]
server_addr = "{rpc}"

[log]
to = "console"
level = "warn"

[plugins]
dir = {plugins}
default_startups = ["rmqtt-retainer", "rmqtt-shared-subscription"]

[listener.{transport}.external]
addr = "{address}"
allow_anonymous = {is_open}
"""


class Rmqtt:
    name = "rmqtt"
    source = Crate("rmqttd", "0.24.0", "rmqttd", is_slow=True, tools=("cmake", "protoc"))
    abilities = replace(
        MOSTLY,
        presets=("stock", "lossless", "tuned"),
        has_credentials=True,
        has_client_certificates=True,
        has_permissions=True,
        licence="MIT or Apache-2.0",
    )

    def find(self) -> Found | Missing:
        return find_built(self.name, self.source)

    def node(self, choice: BrokerChoice, *, folder: Path, host: str, port: int, security: Security = OPEN) -> Node:
        check_choice(choice, self.abilities, security)
        here = folder.absolute()
        counters = f"{host}:{free_port(host)}"
        plugins = {
            "rmqtt-acl.toml": "rules = [\n" + "".join(f"    {rule},\n" for rule in _rules(security)) + "]\n",
            "rmqtt-http-api.toml": f'http_laddr = "{counters}"\n',
            "rmqtt-retainer.toml": 'storage.type = "ram"\n',
        }
        # All files of its plugins lie in one folder, which with users is a private one.
        place = secret(security, "") if security.users else here / _PLUGINS
        files = {_CONFIG: "".join(_lines(choice.preset, host, port, place, security))}
        if not security.users:
            files |= {f"{_PLUGINS}/{name}": text for name, text in plugins.items()}
        return Node(
            argv=(program_of(self.find(), choice), "-f", str(here / _CONFIG)),
            host=host,
            port=port,
            files=files,
            secrets={place / name: text for name, text in plugins.items()} if security.users else {},
            page=f"http://{counters}/api/v1/metrics/sum",
        )

    def counters(self) -> tuple[Counter, ...]:
        return (
            Counter("messages.publish", Count.RECEIVED, is_exact=True),
            Counter("messages.delivered", Count.SENT, is_exact=True),
            Counter("messages.dropped", Count.DROPPED, is_exact=True),
        )

    def read_page(self, text: str) -> Mapping[str, float]:
        return json_numbers(text)


def _lines(preset: str, host: str, port: int, plugins: Path, security: Security) -> Iterator[str]:
    yield _COMMON.format(
        rpc=f"{host}:{free_port(host)}",
        plugins=toml_string(f"{plugins}/"),
        transport=security.transport,
        address=f"{host}:{port}",
        is_open="false" if security.users else "true",
    )
    if preset == "lossless":
        yield f"max_mqueue_len = {_LOSSLESS_QUEUE}\n"
    if preset == "tuned":
        yield "nodelay = true\n"
    if security.transport.is_encrypted:
        yield f"cert = {toml_string(security.certificate)}\nkey = {toml_string(security.key)}\n"
        if security.authority:
            yield f"cross_certificate = true\nclient_ca_certs = {toml_string(security.authority)}\n"


def _rules(security: Security) -> Iterator[str]:
    """The first rule that matches decides, and what no rule matches is forbidden."""
    if not security.users:
        yield '["allow", "all"]'
        return
    for name, password in security.users.items():
        who = f"{{ user = {toml_string(name)}, password = {toml_string(password)} }}"
        yield f'["allow", {who}, "connect"]'
    if not (security.readable or security.writable):
        yield '["allow", "all", "pubsub"]'
    for action, filters in (("subscribe", security.readable), ("publish", security.writable)):
        if filters:
            yield f'["allow", "all", "{action}", [{", ".join(map(toml_string, filters))}]]'
