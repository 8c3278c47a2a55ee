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

A cluster is the one by Raft (rmqtt-cluster-raft). Its bridges go one way each, and two of them would send each message
back where it came from; so bridges between RMQTT and others are brokerlab's own.

There is no durable: its stores write behind, and messages for absent clients survive only in a Redis beside it.
"""

from collections import Counter as Tally
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from brokerlab.brokers.base import OPEN, Count, Counter, Found, Group, Missing, Node, Seat, Security
from brokerlab.brokers.built import MOSTLY, find_built, program_of, secret, toml_string
from brokerlab.brokers.choice import check_choice
from brokerlab.brokers.seats import alone, of_seat
from brokerlab.brokers.source import Crate
from brokerlab.brokers.telling import answer, json_numbers
from brokerlab.study.values import BrokerChoice

_CONFIG = "rmqtt.toml"
_PLUGINS = "plugins"
_LOSSLESS_QUEUE = 1_000_000
_STARTUPS = ("rmqtt-retainer", "rmqtt-shared-subscription")
_RAFT = "rmqtt-cluster-raft"
_HEALTH_S = 7.0  # it waits 5 s for a node that does not answer

_COMMON = """\
[node]
id = {id}

[node.busy]
check_enable = false

[rpc]
server_addr = "{rpc}"

[log]
to = "console"
level = "warn"

[plugins]
dir = {plugins}
default_startups = {startups}

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
        has_clusters=True,
        licence="MIT or Apache-2.0",
    )

    def find(self) -> Found | Missing:
        return find_built(self.name, self.source)

    def node(self, choice: BrokerChoice, *, folder: Path, host: str, port: int, security: Security = OPEN) -> Node:
        return self._node(choice, alone(folder, host, port, spare=2), security)

    def cluster(self, choice: BrokerChoice, seats: Sequence[Seat], *, security: Security = OPEN) -> Group:
        return Group(
            tuple(self._node(choice, seat, of_seat(security, seat), seats) for seat in seats),
            is_together=True,  # Raft needs most of the nodes to have a leader
        )

    def members(self, node: Node) -> int | None:
        """Those that follow one leader: nodes that found none when they started lead alone, and know the others."""
        told = answer((node.page or "").replace("metrics/sum", "health/check"), within_s=_HEALTH_S)
        if not told:
            return None
        leaders = Tally(each["leader_id"] for each in told["nodes"] if each["running"])
        return max(leaders.values(), default=0)

    def _node(self, choice: BrokerChoice, seat: Seat, security: Security, seats: Sequence[Seat] = ()) -> Node:
        check_choice(choice, self.abilities, security)
        here = seat.folder
        counters = f"{seat.host}:{seat.spare[0]}"
        plugins = {
            "rmqtt-acl.toml": "rules = [\n" + "".join(f"    {rule},\n" for rule in _rules(security)) + "]\n",
            "rmqtt-http-api.toml": f'http_laddr = "{counters}"\n',
            "rmqtt-retainer.toml": 'storage.type = "ram"\n',
        }
        if seats:
            plugins[f"{_RAFT}.toml"] = _raft(seat, seats)
        # All files of its plugins lie in one folder, which with users is a private one.
        place = secret(security, "") if security.users else here / _PLUGINS
        files = {_CONFIG: "".join(_lines(choice.preset, seat, place, security, is_member=bool(seats)))}
        if not security.users:
            files |= {f"{_PLUGINS}/{name}": text for name, text in plugins.items()}
        return Node(
            argv=(program_of(self.find(), choice), "-f", str(here / _CONFIG)),
            host=seat.host,
            port=seat.port,
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


def _raft(seat: Seat, seats: Sequence[Seat]) -> str:
    """Where the nodes listen for each other: for calls, and for Raft; the first leads, unless another does already.

    Without a leader that is named, nodes that start at once find none and lead a cluster of one each.
    """
    calls = ", ".join(toml_string(f"{_id(each)}@{_calls(each)}") for each in seats)
    raft = ", ".join(toml_string(f"{_id(each)}@{_votes(each)}") for each in seats)
    leader = f"leader_id = {_id(seats[0])}\n"
    return f'node_grpc_addrs = [{calls}]\nraft_peer_addrs = [{raft}]\nladdr = "{_votes(seat)}"\n{leader}'


def _id(seat: Seat) -> int:
    return seat.index + 1


def _calls(seat: Seat) -> str:
    return f"{seat.host}:{seat.spare[1]}"


def _votes(seat: Seat) -> str:
    return f"{seat.host}:{seat.spare[2]}"


def _lines(preset: str, seat: Seat, plugins: Path, security: Security, *, is_member: bool) -> Iterator[str]:
    startups = (*_STARTUPS, _RAFT) if is_member else _STARTUPS
    yield _COMMON.format(
        id=_id(seat),
        rpc=_calls(seat),
        plugins=toml_string(f"{plugins}/"),
        startups=f"[{', '.join(map(toml_string, startups))}]",
        transport=security.transport,
        address=f"{seat.host}:{seat.port}",
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
