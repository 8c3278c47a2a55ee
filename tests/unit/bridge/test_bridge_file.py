"""A bridge file is read with all its problems at once; exit code 64 (X-01, X-07, F-09)."""

import pytest

from brokerlab.bridge.file import read_bridge
from brokerlab.study.problems import StudyError
from brokerlab.study.values import Transport

pytestmark = pytest.mark.unit

WHOLE = """\
bridge: 1
name: plant
brokers:
  here: {address: "192.0.2.1:1883"}
  cloud: {address: "[2001:db8::1]:8883", protocol: 5, transport: tls, user: a, password: env:OF_A, id: cloud-1}
routes:
  up:
    from: here
    to: cloud
    subscribe: [plant/+/t, plant/x]
    qos: 2
    topics: {"plant/+/t": "site/{1}"}
    transform: [{csv_to_json: {columns: [a, b]}}, {convert: {a: number}}, {python: json.dumps}]
    workers: 4
    connections: per message
    dead_letters: dead/up
    inflight: 7
    buffer: 1 MiB
  down: {from: cloud, to: here, subscribe: "orders/#", both: true}
metrics: {port: 9399, file: counters.prom, every: 2 s}
"""


def read(folder, text):
    path = folder / "bridge.yaml"
    path.write_text(text)
    return read_bridge(path)


def problems(folder, text):
    with pytest.raises(StudyError) as refused:
        read(folder, text)
    assert refused.value.exit_code == 64
    return [str(problem).partition("bridge.yaml")[2] for problem in refused.value.problems]


def test_a_whole_file_is_read(tmp_path):
    bridge = read(tmp_path, WHOLE)

    up, down, back = bridge.routes
    assert (up.source, up.target, up.filters, up.qos, up.workers) == ("here", "cloud", ("plant/+/t", "plant/x"), 2, 4)
    assert (up.is_lasting, up.dead_letters, up.inflight, up.buffer_bytes) == (False, "dead/up", 7, 2**20)
    assert [type(step).__name__ for step in up.steps] == ["CsvToJson", "Convert", "Call"]
    assert (down.name, back.name, back.source, back.target) == ("down", "down-back", "here", "cloud")
    assert (down.echo, back.echo) == ("down-back", "down")
    cloud = bridge.brokers["cloud"]
    assert (cloud.address, cloud.level, cloud.transport, cloud.id) == (
        "[2001:db8::1]:8883",
        5,
        Transport.TLS,
        "cloud-1",
    )
    assert bridge.state == tmp_path / "bridge.state"
    assert "OF_A" in repr(cloud.password)


def test_all_problems_are_told_at_once_with_place_rule_and_nearest_name(tmp_path):
    text = """\
bridge: 1
brokers:
  plant: {address: "127.0.0.1"}
  cloud: {address: "127.0.0.1:1884", authorty: x, user: a, password: hello, protocol: 4}
  none: {address: "mqtt..example.org:1883"}
routes:
  up: {from: plnt, to: cloud, subscribe: "plant/#/x", qos: 3, transform: [{pyton: x.y}, {python: json.lods}]}
  down: {from: cloud, to: plant, subscribe: a, both: true, topics: {"a/+": "b/{2}"}, connections: per mesage}
"""
    found = problems(tmp_path, text)

    assert found == [
        ':3: brokers.plant.address: "127.0.0.1": an address is written host:port, for example 192.0.2.1:1883',
        ':4: brokers.cloud.authorty: unknown key; did you mean "authority"?',
        ":4: brokers.cloud.password: must be env:NAME: a password stands in the environment, and not in a file",
        ':4: brokers.cloud.protocol: "4": unknown MQTT version; known: 3.1.1 and 5.0',
        ":5: brokers.none.address: \"mqtt..example.org:1883\": no host is called 'mqtt..example.org'",
        ':7: routes.up.from: "plnt": no such broker in brokers; did you mean "plant"?',
        ':7: routes.up.qos: "3": must be 0, 1 or 2',
        ':7: routes.up.subscribe: "plant/#/x": "#" must be the last level of a filter, alone',
        ':7: routes.up.transform[0].pyton: unknown key; did you mean "python"?',
        ':7: routes.up.transform[1].python: "json.lods": json has no function lods; did you mean "json.loads"?',
        ':8: routes.down.connections: "per mesage": unknown kind of connections; did you mean "per message"?',
        ":8: routes.down.topics: cannot be turned round for `both`: write two routes",
        ':8: routes.down.topics.a/+: "b/{2}": {2} stands for nothing in a/+; known: {1}',
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", ": the file is empty; a bridge file begins with `bridge: 1`"),
        ("bridge: 2\n", ':1: bridge: "2": this brokerlab reads bridge files up to version 1'),
        ("- a\n", ":1: a bridge file is a mapping with the keys bridge, brokers, routes, …"),
    ],
)
def test_a_file_that_is_no_bridge_file_is_one_problem(tmp_path, text, problem):
    assert problems(tmp_path, text) == [problem]


CIRCLE = """\
bridge: 1
brokers:
  a: {address: "h:1", protocol: "%s"}
  b: {address: "h:2", protocol: "5.0"}
  c: {address: "h:3", protocol: "5.0"}
routes:
  ab: {from: a, to: b, subscribe: "t/#"}
  bc: {from: b, to: c, subscribe: "t/1/#"}
  ca: {from: c, to: a, subscribe: "+/1/x"}
"""


def test_an_endless_loop_is_refused_unless_marks_stop_it(tmp_path):
    refused = problems(tmp_path, CIRCLE % "3.1.1")

    assert refused == [
        ":7: routes.ab: an endless loop: ab -> bc -> ca; with protocol 5.0 at all of its brokers (a) it is stopped"
    ]
    assert len(read(tmp_path, CIRCLE % "5.0").routes) == 3
    assert len(read(tmp_path, CIRCLE.replace("+/1/x", "u/#") % "3.1.1").routes) == 3
