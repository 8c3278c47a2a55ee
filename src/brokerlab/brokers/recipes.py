"""How brokers that come as container images are set up: data, as their makers document it.

Which of them were tried the table of brokers says: few images could be had where this was written. What starts them,
limits them and joins them to our namespaces was tried on a real engine, with an image that was made for it.

In the texts {host} and {port} are the node's, {spare} is a free port for its page, {first} the address of the first
node, {all} those of all nodes as the recipe spells them, and {index} is the node's number.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from brokerlab.brokers.base import Count, Counter
from brokerlab.brokers.mosquitto import told_counters
from brokerlab.study.values import Qos

_ALL = ("3.1", "3.1.1", "5.0")


@dataclass(frozen=True, slots=True)
class Recipe:
    image: str
    protocols: tuple[str, ...] = _ALL
    qos: tuple[Qos, ...] = tuple(Qos)
    licence: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    argv: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)  # path in the container -> text
    data: tuple[str, ...] = ()
    fixed_port: int | None = None  # the only one that it listens on, where that cannot be changed
    cluster: Mapping[str, str] = field(default_factory=dict)  # added to the environment; empty: it has none
    cluster_file: Mapping[str, str] = field(default_factory=dict)  # instead of `files`
    most_nodes: int | None = None  # that the licence which comes with it allows in one cluster
    is_joined: bool = False  # only the nodes after the first have what is added: they join that one
    spells: str = "{host}"  # one node in {all}
    between: str = ","  # two of them
    page: str = ""  # below http://{host}:{spare}; without one its counters are on topics
    counters: tuple[Counter, ...] = ()
    ready_s: float = 60.0
    accepts: str = ""  # an option that the user must set, because it accepts a licence in his name
    note: str = ""
    tried: str = ""  # with what, where it was


_HIVEMQ = """\
<?xml version="1.0"?>
<hivemq>
  <listeners>
    <tcp-listener><port>{port}</port><bind-address>{host}</bind-address></tcp-listener>
  </listeners>
  <anonymous-usage-statistics><enabled>false</enabled></anonymous-usage-statistics>
"""
_HIVEMQ_CLUSTER = """\
  <cluster>
    <enabled>true</enabled>
    <transport><tcp><bind-address>{host}</bind-address><bind-port>7800</bind-port></tcp></transport>
    <discovery><static>{all}</static></discovery>
  </cluster>
"""
_END = "</hivemq>\n"
_HIVEMQ_FILE = "/opt/hivemq/conf/config.xml"
_EDGE = """\
<?xml version="1.0"?>
<hivemq>
  <mqtt-listeners>
    <tcp-listener><port>{port}</port><bind-address>{host}</bind-address></tcp-listener>
  </mqtt-listeners>
</hivemq>
"""
_MOSQUITTO_FILE = "/mosquitto/config/mosquitto.conf"
_MOSQUITTO = """\
user root
listener {port} {host}
allow_anonymous true
persistence false
sys_interval 1
"""
_LAVINMQ = """\
[main]
data_dir = /var/lib/lavinmq
[mqtt]
bind = {host}
port = {port}
[mgmt]
bind = {host}
port = {spare}
"""

_EMQX = Recipe(
    "emqx/emqx:5.8.9",
    licence="Apache-2.0",
    env={
        "EMQX_NODE__NAME": "emqx@{host}",
        "EMQX_NODE__COOKIE": "brokerlab",
        "EMQX_LISTENERS__TCP__DEFAULT__BIND": "{host}:{port}",
        "EMQX_LISTENERS__SSL__DEFAULT__ENABLE": "false",
        "EMQX_LISTENERS__WS__DEFAULT__ENABLE": "false",
        "EMQX_LISTENERS__WSS__DEFAULT__ENABLE": "false",
        "EMQX_DASHBOARD__LISTENERS__HTTP__BIND": "{host}:{spare}",
    },
    data=("/opt/emqx/data",),
    cluster={
        "EMQX_CLUSTER__DISCOVERY_STRATEGY": "static",
        "EMQX_CLUSTER__STATIC__SEEDS": "[{all}]",
    },
    spells="emqx@{host}",
    page="/api/v5/prometheus/stats",
    counters=(
        Counter("emqx_messages_received", Count.RECEIVED),
        Counter("emqx_messages_sent", Count.SENT),
        Counter("emqx_messages_dropped", Count.DROPPED, note="also those that nobody subscribed to"),
        Counter("emqx_connections_count", Count.CONNECTIONS),
        Counter("emqx_subscriptions_count", Count.SUBSCRIPTIONS),
    ),
)

RECIPES: Mapping[str, Recipe] = {
    "bifromq": Recipe(
        "bifromq/bifromq:latest",
        licence="Apache-2.0",
        fixed_port=1883,
        data=("/home/bifromq/data",),
        ready_s=90.0,
    ),
    "emitter": Recipe(
        "emitter/server:latest",
        protocols=("3.1.1",),
        qos=(Qos.AT_MOST_ONCE,),
        licence="AGPL-3.0",
        env={"EMITTER_LISTEN": "{host}:{port}"},
        accepts="licence",
        note="every topic of a client begins with a key of its channel: the option licence is that of the server",
    ),
    "emqx": _EMQX,
    "emqx@5.10": replace(
        _EMQX, image="emqx/emqx:5.10.1", licence="BSL-1.1; a cluster needs a licence of its own", most_nodes=1
    ),
    "hivemq-4": Recipe(
        "hivemq/hivemq4:latest",
        licence="commercial; 25 connections without a licence",
        files={_HIVEMQ_FILE: _HIVEMQ + _END},
        cluster_file={_HIVEMQ_FILE: _HIVEMQ + _HIVEMQ_CLUSTER + _END},
        spells="<node><host>{host}</host><port>7800</port></node>",
        between="",
        data=("/opt/hivemq/data", "/opt/hivemq/log"),
        ready_s=90.0,
    ),
    "hivemq-edge": Recipe(
        "hivemq/hivemq-edge:latest",
        licence="Apache-2.0",
        files={_HIVEMQ_FILE: _EDGE},
        data=("/opt/hivemq/data", "/opt/hivemq/log"),
        ready_s=90.0,
    ),
    "lavinmq": Recipe(
        "cloudamqp/lavinmq:latest",
        protocols=("3.1.1",),
        qos=(Qos.AT_MOST_ONCE, Qos.AT_LEAST_ONCE),
        licence="Apache-2.0",
        files={"/etc/lavinmq/lavinmq.ini": _LAVINMQ},
        data=("/var/lib/lavinmq",),
        page="/metrics",
    ),
    "mosquitto-image": Recipe(
        "eclipse-mosquitto:2",
        licence="EPL-2.0 or BSD-3-Clause",
        argv=("/usr/sbin/mosquitto", "-c", _MOSQUITTO_FILE),
        files={_MOSQUITTO_FILE: _MOSQUITTO},
        data=("/mosquitto/data",),
        counters=tuple(told_counters(is_old=False)),
        ready_s=30.0,
        tried="with an image of the same shape, made of Debian's Mosquitto",
    ),
    "nanomq": Recipe(
        "emqx/nanomq:latest",
        licence="MIT",
        argv=("nanomq", "start", "--url", "nmq-tcp://{host}:{port}"),
    ),
    "vernemq": Recipe(
        "vernemq/vernemq:latest",
        licence="Apache-2.0; the image: EULA",
        env={
            "DOCKER_VERNEMQ_ALLOW_ANONYMOUS": "on",
            "DOCKER_VERNEMQ_NODENAME": "{host}",
            "DOCKER_VERNEMQ_LISTENER__TCP__DEFAULT": "{host}:{port}",
            "DOCKER_VERNEMQ_LISTENER__HTTP__METRICS": "{host}:{spare}",
        },
        data=("/vernemq/data",),
        cluster={"DOCKER_VERNEMQ_DISCOVERY_NODE": "{first}"},
        is_joined=True,
        page="/metrics",
        counters=(
            Counter("mqtt_publish_received", Count.RECEIVED),
            Counter("mqtt_publish_sent", Count.SENT),
            Counter("queue_message_drop", Count.DROPPED),
        ),
        accepts="eula",
    ),
}
