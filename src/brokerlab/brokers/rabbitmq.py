"""RabbitMQ with its MQTT plugin, in Erlang: Debian's 3.10 (MQTT 3.1 and 3.1.1) and 4.0 of a newer Debian (also 5.0).

It does QoS 0 and 1. Who asks for 2 is granted 1; a PUBLISH at QoS 2 is answered with PUBACK, against MQTT 3.1.1
section 4.3.3, and ends the connection in MQTT 5.0. A dot in a topic is delivered as a slash.
A node that is alone has no listener of Erlang's own, and none has the port mapper (epmd, see erlang.py): nothing stays
behind when it is killed. Its data lie in the node's folder and go with it.
In a cluster each queue lies on the node that its client first came to, and each node has its own retained messages.

stock     as shipped, with the plugin of MQTT and that of its own counters, but for what a run needs:
            listeners               MQTT on the address, and no AMQP at all
            loopback_users          its user `guest`, as which clients without a name come in, may come from anywhere
            prometheus              its counters on a page of the same address; the collector of statistics, which
                                    the plugin brings along and the counters do not need, is off
            log                     to the console, in one colour, and not a line for each client
lossless  3.10: as stock, because its queues have no limit and it slows publishers down instead.
          4.0: also at QoS 0, of which stock drops what does not fit a client's mailbox of 200.
durable   persistent sessions have quorum queues: a message is in the log on the disk, synced, before its PUBACK.
          Clean sessions and retained messages (synced every 2 s) are as in stock.
tuned     lossless, with more messages in flight to each client, and the larger buffers and backlog that its guide
          to networking names. Nagle's delay is off in stock already.
"""

import base64
import hashlib
import json
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from brokerlab.brokers import erlang
from brokerlab.brokers.base import (
    OPEN,
    Abilities,
    Count,
    Counter,
    Departure,
    Found,
    Group,
    Missing,
    Node,
    Seat,
    Security,
)
from brokerlab.brokers.cache import how_to_install
from brokerlab.brokers.choice import check_choice
from brokerlab.brokers.seats import alone, of_seat
from brokerlab.brokers.source import Debian, DebianSuite
from brokerlab.brokers.suite import by_loader, find_in_suite, may_mount, root_of, with_usr
from brokerlab.brokers.telling import page_text, prometheus
from brokerlab.errors import UserError
from brokerlab.study.values import BrokerChoice, Qos, Transport

_NAME = "rabbitmq"
_PACKAGE = "rabbitmq-server"
_SUITES = {"4.0.5": "trixie"}
_HOME = Path("usr/lib/rabbitmq")
_PROGRAM = _HOME / "bin/rabbitmq-server"  # the one in /usr/sbin changes the user
_SYSTEM = Path("/")
_DATA = "data"
_NODE = "rabbit@localhost"
_EVERYBODY = "guest"  # as whom clients without a name come in
_READY_S, _STOP_S = 90.0, 15.0
_SALT_BYTES = 4
_STATISTICS_S = 5.0  # how often it counts what is in its queues

_ALONE = ("-sname", _NODE, *erlang.ALONE)
_STATE = "erlang_vm_dist_node_state"
_IS_UP = 3.0  # of the state of a connection to another node

_TUNED = (
    "mqtt.prefetch = 200",
    "mqtt.tcp_listen_options.backlog = 4096",
    "mqtt.tcp_listen_options.sndbuf = 196608",
    "mqtt.tcp_listen_options.recbuf = 196608",
)


class RabbitMQ:
    def __init__(self, version: str | None = None) -> None:
        """Debian's own, or the one of a newer Debian."""
        self._version = version
        self.name = _NAME if version is None else f"{_NAME}@{version}"
        self.source: Debian | DebianSuite = (
            Debian((_PACKAGE,)) if version is None else DebianSuite(_SUITES[version], (_PACKAGE,))
        )
        self.abilities = Abilities(
            qos=(Qos.AT_MOST_ONCE, Qos.AT_LEAST_ONCE),
            protocols=("3.1", "3.1.1") if version is None else ("3.1", "3.1.1", "5.0"),
            presets=("stock", "lossless", "durable", "tuned"),
            transports=tuple(Transport),
            has_credentials=True,
            has_client_certificates=True,
            has_permissions=True,
            has_clusters=True,
            is_scalable=True,
            departs=(Departure.HANGS_UP_ON_WS,) if version is None else (),
            licence="MPL-2.0",
        )

    def find(self) -> Found | Missing:
        if self._version is None:
            return self._find_here()
        found = find_in_suite(self.name, _PACKAGE, str(_PROGRAM), self._version)
        if isinstance(found, Found) and not may_mount():
            return Missing(f"{self.name} runs out of another Debian's /usr, which only root may mount", hint="be root")
        return found

    def _find_here(self) -> Found | Missing:
        hint = how_to_install(self.name)
        homes = sorted((_SYSTEM / _HOME / "lib").glob("rabbitmq_server-*"))
        if not homes or not (_SYSTEM / _PROGRAM).exists():
            return Missing(f"the program {_PACKAGE} is not here", hint=hint)
        version = homes[-1].name.partition("-")[2]
        if not version.startswith("3."):
            return Missing(f"this machine's RabbitMQ is {version}, and this driver is for 3.x", hint=hint)
        return Found(str(_SYSTEM / _PROGRAM), version)

    def node(self, choice: BrokerChoice, *, folder: Path, host: str, port: int, security: Security = OPEN) -> Node:
        node = self._node(choice, alone(folder, host, port), security)
        return replace(node, env=_environment(folder.absolute(), _NODE, _ALONE))

    def cluster(self, choice: BrokerChoice, seats: Sequence[Seat], *, security: Security = OPEN) -> Group:
        """3.10 looks for the nodes of its list; 4.0 would do so by a node of its own, which needs epmd, and is told."""
        members = erlang.members("rabbit", seats)
        nodes: list[Node] = []
        for seat, member in zip(seats, members, strict=True):
            own = of_seat(security, seat)
            node = self._node(choice, seat, own, _formation(members) if self._version is None else ())
            nodes.append(
                replace(
                    node,
                    secrets={**node.secrets, **erlang.cookie_of(member, own)},
                    env=_environment(seat.folder, member.name, member.arguments)
                    | {"HOME": str(erlang.home(own)), "RABBITMQ_USE_LONGNAME": "true"},
                    joins=() if self._version is None or not nodes else self._joins(member, members[0]),
                )
            )
        return Group(tuple(nodes), is_together=self._version is None)

    def _joins(self, member: erlang.Member, first: erlang.Member) -> tuple[tuple[str, ...], ...]:
        """As `rabbitmqctl stop_app`, `join_cluster` and `start_app` do."""
        found = self.find()
        if isinstance(found, Missing):
            return ()
        program = Found(str(root_of(found) / "usr/bin" / erlang.CALL), found.version)
        steps = ("rabbit stop []", f"rabbit_db_cluster join ['{first.name}', disc]", "rabbit start []")
        return tuple(by_loader(program, *member.call(step)[1:]) for step in steps)

    def members(self, node: Node) -> int | None:
        """With the nodes that Erlang's own connections lead to."""
        told = page_text(node.page or "")
        if told is None:
            return None
        states = prometheus(told).items()
        return 1 + sum(1 for name, value in states if name.startswith(f"{_STATE}{{") and value == _IS_UP)

    def _node(self, choice: BrokerChoice, seat: Seat, security: Security, more: Iterable[str] = ()) -> Node:
        """All but what it is told in its environment."""
        check_choice(choice, self.abilities, security)
        found = self.find()
        if isinstance(found, Missing):
            raise UserError(f"broker {choice.name}: {found.reason}", hint=found.hint)
        definitions = _definitions(security)
        counters = seat.spare[0]
        lines = [*_lines(seat.host, seat.port, security), *self._preset(choice.preset), *more]
        files = {"enabled_plugins": f"[{_plugin(security.transport)}, rabbitmq_prometheus].\n"}
        lines += [f"prometheus.tcp.ip = {seat.host}", f"prometheus.tcp.port = {counters}"]
        if definitions:
            lines.append(f"load_definitions = {_definitions_file(security)}")
        if security.transport is Transport.WSS:
            files["advanced.config"] = _web_tls(seat.host, seat.port, security)
        files["rabbitmq.conf"] = "\n".join(lines) + "\n"
        return Node(
            argv=(found.program,) if self._version is None else with_usr(found),
            host=seat.host,
            port=seat.port,
            files=files,
            secrets={_definitions_file(security): json.dumps(definitions)} if definitions else {},
            scratch=(_DATA,),
            ready_s=_READY_S,
            stop_s=_STOP_S,
            is_open_before_users=bool(definitions),
            page=f"http://{seat.host}:{counters}/metrics",
        )

    def counters(self) -> tuple[Counter, ...]:
        """Seen on 3.10.8, where they stand under the name of AMQP, and on 4.0.5; the contract suite looks again."""
        kinds = "all kinds of queues"
        return (
            Counter("rabbitmq_global_messages_received_total", Count.RECEIVED, is_exact=True),
            Counter("rabbitmq_global_messages_delivered_total", Count.SENT, is_exact=True, note=f"out of {kinds}"),
            Counter("rabbitmq_connections", Count.CONNECTIONS),
            Counter("rabbitmq_global_consumers", Count.SUBSCRIPTIONS, note="a client has one for each QoS, not filter"),
            Counter("rabbitmq_queue_messages", Count.QUEUED, late_s=_STATISTICS_S, note=f"in {kinds}"),
        )

    def read_page(self, text: str) -> Mapping[str, float]:
        return prometheus(text)

    def _preset(self, preset: str) -> Iterator[str]:
        if self._version is not None and preset != "stock":
            yield "mqtt.mailbox_soft_limit = 0"
        if preset == "durable":
            yield "mqtt.durable_queue_type = quorum"
        if preset == "tuned":
            yield from _TUNED


def _environment(folder: Path, name: str, distribution: Iterable[str]) -> dict[str, str]:
    data = folder / _DATA
    return {
        "HOME": str(data),
        "TMPDIR": str(data),
        "RUNNING_UNDER_SYSTEMD": "true",  # the script becomes Erlang instead of watching over it
        "RABBITMQ_NODENAME": name,
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
        "RABBITMQ_ADVANCED_CONFIG_FILE": str(folder / "advanced.config"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "enabled_plugins"),
        "RABBITMQ_CONF_ENV_FILE": "/dev/null",
        "RABBITMQ_MNESIA_BASE": str(data / "mnesia"),
        "RABBITMQ_LOG_BASE": str(data / "log"),
        "RABBITMQ_LOG": "-color",
        "RABBITMQ_PID_FILE": str(data / "pid"),
        "RABBITMQ_GENERATED_CONFIG_DIR": str(data / "generated"),
        "RABBITMQ_FEATURE_FLAGS_FILE": str(data / "feature_flags"),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": " ".join(distribution),
        "ERL_CRASH_DUMP": str(data / "crash.dump"),
    }


def _formation(members: Sequence[erlang.Member]) -> Iterator[str]:
    yield "cluster_formation.peer_discovery_backend = classic_config"
    yield from (f"cluster_formation.classic_config.nodes.{n} = {each.name}" for n, each in enumerate(members, start=1))


def _plugin(transport: Transport) -> str:
    return "rabbitmq_web_mqtt" if transport.is_framed else "rabbitmq_mqtt"


def _lines(host: str, port: int, security: Security) -> Iterator[str]:
    yield "listeners.tcp = none"
    yield from _listener(host, port, security)
    yield f"mqtt.allow_anonymous = {'false' if security.users else 'true'}"
    yield "loopback_users = none"
    yield "management_agent.disable_metrics_collector = true"
    yield "log.file = false"
    yield "log.console = true"
    yield "log.connection.level = warning"


def _listener(host: str, port: int, security: Security) -> Iterator[str]:
    """What is served; a listener that is not switched off is on a port of RabbitMQ's choice, on all addresses."""
    match security.transport:
        case Transport.TCP:
            yield f"mqtt.listeners.tcp.1 = {host}:{port}"
        case Transport.TLS:
            yield "mqtt.listeners.tcp = none"
            yield f"mqtt.listeners.ssl.1 = {host}:{port}"
            yield f"ssl_options.certfile = {security.certificate}"
            yield f"ssl_options.keyfile = {security.key}"
            if security.authority:
                yield f"ssl_options.cacertfile = {security.authority}"
                yield "ssl_options.verify = verify_peer"
                yield "ssl_options.fail_if_no_peer_cert = true"
        case Transport.WS:
            yield "mqtt.listeners.tcp = none"
            yield f"web_mqtt.tcp.ip = {host}"
            yield f"web_mqtt.tcp.port = {port}"
            yield "web_mqtt.ws_path = /mqtt"
        case Transport.WSS:
            yield "mqtt.listeners.tcp = none"
            yield "web_mqtt.tcp.listener = none"
            yield "web_mqtt.ws_path = /mqtt"


def _web_tls(host: str, port: int, security: Security) -> str:
    """In RabbitMQ's older language: the newer one does not ask clients for certificates over WebSocket."""
    options = [
        f'{{ip, "{host}"}}',
        f"{{port, {port}}}",
        f'{{certfile, "{security.certificate}"}}',
        f'{{keyfile, "{security.key}"}}',
    ]
    if security.authority:
        options += [f'{{cacertfile, "{security.authority}"}}', "{verify, verify_peer}", "{fail_if_no_peer_cert, true}"]
    return f"[{{rabbitmq_web_mqtt, [{{ssl_config, [{', '.join(options)}]}}]}}].\n"


def _definitions_file(security: Security) -> Path:
    if security.folder is None:
        raise ValueError("a private folder is needed for passwords and permissions")
    return security.folder / "rabbitmq.json"


def _definitions(security: Security) -> Mapping[str, object] | None:
    """Users with hashes of their passwords, and what they may; None where everybody may do everything."""
    is_limited = bool(security.readable or security.writable)
    if not security.users and not is_limited:
        return None
    users = security.users or {_EVERYBODY: _EVERYBODY}
    everything = {"vhost": "/", "configure": ".*", "write": ".*", "read": ".*"}
    topics = {
        "vhost": "/",
        "exchange": "amq.topic",
        "read": routing_keys(security.readable),
        "write": routing_keys(security.writable),
    }
    return {
        "vhosts": [{"name": "/"}],
        "users": [
            {
                "name": name,
                "password_hash": _hashed(password),
                "hashing_algorithm": "rabbit_password_hashing_sha256",
                "tags": "",
            }
            for name, password in users.items()
        ],
        "permissions": [{"user": name} | everything for name in users],
        "topic_permissions": [{"user": name} | topics for name in users] if is_limited else [],
    }


def _hashed(password: str) -> str:
    salt = secrets.token_bytes(_SALT_BYTES)
    return base64.b64encode(salt + hashlib.sha256(salt + password.encode()).digest()).decode()


def routing_keys(filters: Iterable[str]) -> str:
    """The regular expression of what topics that match one of the filters are called within RabbitMQ: a.b for a/b."""
    return "|".join(f"^{_levels(each)}$" for each in filters) or "(?!)"


def _levels(topic_filter: str) -> str:
    levels = topic_filter.split("/")
    written = r"\.".join("[^.]*" if level == "+" else re.escape(level.replace(".", "/")) for level in levels)
    if levels[-1] != "#":
        return written
    return ".*" if len(levels) == 1 else written.removesuffix(r"\.\#") + r"(\..*)?"
