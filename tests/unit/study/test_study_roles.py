"""Roles, echo and probe in a study: what is read, what is refused, and how it is written back."""

import pytest

from brokerlab.study.facts import DriverFacts
from brokerlab.study.file import read_study
from brokerlab.study.mqtt5_values import Mqtt5
from brokerlab.study.plan import make_plan
from brokerlab.study.problems import StudyError
from brokerlab.study.values import Echo, Factor, Probe, Qos, Roles, Start
from brokerlab.study.written import study_yaml


def with_keys(text, keys, *, variables=""):
    workload = "".join(f"    {line}\n" for line in keys)
    return text.replace("scenario:\n", f"scenario:\n  workload:\n{workload}") + variables


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (["role: loop"], {"role": Roles.LOOP}),
        (["role: echo", "echo: {qos: 2}"], {"role": Roles.ECHO, "echo": Echo(Qos(2))}),
        (["start: control"], {"start": Start.CONTROL}),
        (["probe: {}"], {"probe": Probe(2.0, Qos(1))}),
        (["probe: {every: 500 ms, qos: 0}"], {"probe": Probe(0.5, Qos(0))}),
        (
            ["role: echo", "publishers: 3", "topics: {publish: 'a/{publisher}', reply: 'b/{publisher}'}"],
            {"publishers": 3},
        ),
    ],
)
def test_a_role_is_read_and_reads_back_equal(read, small, keys, value):
    study = read(with_keys(small, keys))

    assert {name: getattr(study.scenario.workload, name) for name in value} == value
    assert read(study_yaml(study)) == study


def test_role_and_the_qos_of_answers_are_factors(read, small):
    study = read(with_keys(small, ["protocol: 3.1.1"], variables="    role: [one-way, echo]\n    echo_qos: [0, 2]\n"))

    assert study.scenario.variables[-2:] == (Factor("role", ("one-way", "echo")), Factor("echo_qos", (0, 2)))
    assert read(study_yaml(study)) == study


def test_the_start_is_a_factor(read, small):
    study = read(with_keys(small, ["protocol: 3.1.1"], variables="    start: [clock, control]\n"))

    assert study.scenario.variables[-1] == Factor("start", ("clock", "control"))
    assert [cell.workload.start for cell in make_plan(study, missing={}).cells][:2] == [Start.CLOCK, Start.CONTROL]
    assert read(study_yaml(study)) == study


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (["start: contrl"], 'start: "contrl": unknown way to start; did you mean "control"?'),
        (
            ["start: control", "schedule: {arrivals: saturate}"],
            'start: "control": saturate arrivals start by the clock',
        ),
        (["start: control", "schedule: {arrivals: search}"], 'start: "control": search arrivals start by the clock'),
        (
            ["start: control", "payload: {file: x.csv, record: csv, time: t}", "schedule: {arrivals: replay}"],
            "the control messages tell a rate",
        ),
        (["start: control", "topics: {subscribe: '#'}"], 'subscribe: "#": "brokerlab-control/start" has the control'),
        (
            ["start: control", "topics: {publish: brokerlab-control/start}"],
            "has the control messages of start: control",
        ),
    ],
)
def test_a_start_that_cannot_be_is_refused(problems, small, keys, said):
    assert any(said in str(problem) for problem in problems(with_keys(small, keys)))


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (["role: ecko"], 'role: "ecko": unknown role; did you mean "echo"?'),
        (["echo: {qos: 1}"], "echo: belongs to the role echo; write role: echo"),
        (["topics: {reply: a}"], "reply: belongs to the role echo; write role: echo"),
        (["role: echo", "echo: {qos: 3}"], 'echo.qos: "3": must be 0, 1 or 2'),
        (["role: echo", "echo: {site: 0}"], 'echo.site: "0": must be the number of a site of the topology, from 1'),
        (["role: echo", "echo: {site: 2}"], 'echo.site: "2": loopback has no sites'),
        (
            ["role: loop", "subscribers: 2"],
            'subscribers: "2": in the roles echo and loop every publisher hears for itself',
        ),
        (["role: echo", "topics: {subscribe: x}"], 'subscribe: "x": in the roles echo and loop every publisher hears'),
        (
            ["role: echo", "topics: {publish: a, reply: a}"],
            'the answers on "a" would reach the devices, which hear "a"',
        ),
        (
            ["role: echo", "publishers: 2", "topics: {publish: a}"],
            'publish "a" needs {publisher}: a device answers one of',
        ),
        (["role: loop", "clients: {behaviour: per-message}"], "in the role loop connections last as long as the run"),
        (["probe: {every: 1 h}"], 'every: "1 h": no probe is due in the 5 s of deploy.phases.measure'),
        (["probe: {every: 0 s}"], 'every: "0 s": must be from 1 ms to 1 h'),
    ],
)
def test_a_role_that_cannot_be_is_refused(problems, small, keys, said):
    assert any(said in str(problem) for problem in problems(with_keys(small, keys)))


JSON = "{content: json, template: '{\"n\": {seq}}', size: 64 B}"
FILE = "{file: {made: bus-gps, records: 100, seed: 1}, record: csv, repeat: true}"


@pytest.mark.parametrize(
    ("payload", "subscribe", "variables", "said"),
    [
        ("4 B", "'#'", "", '"#" matches "brokerlab-probe/…", and could not tell it from messages of 4 B'),
        ("{mix: {64 B: 50 %, 4 B: 50 %}}", "['brokerlab/#', '+/+']", "", "from messages of 4 B"),
        ("4 B", "'+'", "    depth: [2]\n", '"+/+" matches'),
        ("{content: random}", "'#'", "    payload: [64 B, 2 B]\n    role: [one-way, echo]\n", "messages of 2 B"),
        (JSON, "'#'", "", "from messages in JSON"),
        (FILE, "'#'", "", "from records of a file"),
        ("4 B", "'brokerlab/#'", "", None),
        ("4 B", "'+'", "    depth: [3]\n", None),
        ("{mix: {64 B: 50 %, 16 B: 50 %}}", "'#'", "", None),
    ],
)
def test_an_overheard_probe_needs_messages_with_their_whole_identity(
    read, problems, small, payload, subscribe, variables, said
):
    publish = ", publish: 'p{publisher}'" if "'+'" in subscribe else ""
    keys = [f"payload: {payload}", f"topics: {{subscribe: {subscribe}{publish}}}", "probe: {every: 1 s}"]
    text = with_keys(small, keys, variables=variables)

    if said is None:
        assert read(text).scenario.workload.probe == Probe(1.0)
    else:
        (found,) = [each for each in problems(text) if "would hear it" in str(each)]
        assert "scenario.workload.probe: the subscribers of the load would hear it" in str(found)
        assert said in str(found)


@pytest.mark.parametrize(
    ("keys", "variables", "said"),
    [
        (["probe: {qos: 2}"], "", 'workload.probe.qos: "2": broker two (driver nats) has no QoS 2; it has 0 and 1'),
        (["role: echo", "echo: {qos: 2}"], "", 'workload.echo.qos: "2": broker two (driver nats) has no QoS 2'),
        (["role: echo"], "    echo_qos: [0, 2]\n", 'variables.echo_qos[1]: "2": broker two (driver nats) has no QoS 2'),
    ],
)
def test_devices_and_probes_ask_for_a_qos_that_the_broker_has(problems, small, keys, variables, said):
    text = small.replace("two: {driver: amqtt}", "two: {driver: nats}")
    (found,) = problems(with_keys(text, keys, variables=variables))

    assert f"scenario.{said}" in str(found)


def test_an_optional_broker_is_left_out_where_devices_would_answer_at_a_qos_that_it_has_not(read, small):
    text = small.replace("two: {driver: amqtt}", "two: {driver: nats, optional: true}")
    study = read(with_keys(text, ["role: echo"], variables="    echo_qos: [0, 2]\n"))

    plan = make_plan(study, missing={}, qos={"two": (0, 1)})

    assert {cell.id for cell in plan.cells if cell.broker.name == "two"} == {
        "broker-two.qos-0.echo_qos-0",
        "broker-two.qos-1.echo_qos-0",
    }
    assert plan.unable == (("two", "it has no QoS 2"),)


def test_devices_may_be_at_a_site_of_their_own(read, problems, small):
    """C-03: behind a link that may be slower than that of who asks."""
    keys = ["role: echo", "echo: {qos: 1, site: 3}"]
    star = with_keys(small, keys).replace("scenario:\n", "scenario:\n  topology: {shape: star, sites: 3}\n")

    study = read(star)

    assert study.scenario.workload.echo == Echo(Qos(1), site=3)
    assert read(study_yaml(study)) == study
    (problem,) = problems(star.replace("sites: 3", "sites: 2"))
    assert "the topology star has 2 sites" in str(problem)


FIVE = "protocol: '5.0'"


@pytest.fixture
def read5(tmp_path):
    """Reads a text as a study whose brokers speak MQTT 5.0."""

    def reader(text):
        path = tmp_path / "study.yaml"
        path.write_text(text, encoding="utf-8")
        return read_study(path, drivers={"amqtt": DriverFacts(protocols=("3.1.1", "5.0"))})

    return reader


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        ("{user_properties: 3, property_bytes: 30 B}", Mqtt5(user_properties=3, property_bytes=30)),
        ("{topic_alias: true, expiry: 1 min}", Mqtt5(topic_alias=True, expiry_s=60)),
        ("{receive_maximum: 20, session_expiry: 1 h}", Mqtt5(receive_maximum=20, session_expiry_s=3600)),
        ("{receive_maximum: none, expiry: none, session_expiry: 1 h}", Mqtt5(session_expiry_s=3600)),
        ("{expiry: none}", Mqtt5()),
        (
            "{subscription_identifiers: on, response_topic: true}",
            Mqtt5(subscription_identifiers=True, response_topic=True),
        ),
    ],
)
def test_what_mqtt_5_adds_is_read_and_reads_back_equal(read5, small, keys, value):
    study = read5(with_keys(small, [FIVE, f"mqtt5: {keys}"]))

    assert study.scenario.workload.mqtt5 == value
    assert read5(study_yaml(study)) == study


@pytest.mark.parametrize(
    "keys",
    [
        ["topics: {publish: 'a/{publisher}/{topic}', count: 10, subscribe: 'a/#'}"],
        ["clients: {behaviour: churn, lifetime: 1 s}"],
        ["clients: {behaviour: storm, every: 1 s, session: persistent}"],
        ["payload: {file: {made: bus-gps, records: 1000, seed: 1}, record: csv}"],
    ],
)
def test_aliases_and_requests_go_with_topics_lives_and_files(read5, small, keys):
    study = read5(with_keys(small, [FIVE, "mqtt5: {topic_alias: true, response_topic: true}", *keys]))

    assert study.scenario.workload.mqtt5 == Mqtt5(topic_alias=True, response_topic=True)


def test_what_mqtt_5_adds_is_a_factor(read5, small):
    variables = "    topic_alias: [false, true]\n    user_properties: [0, 10]\n    expiry: [10 s]\n"
    study = read5(with_keys(small, [FIVE], variables=variables))

    assert Factor("topic_alias", ("off", "on")) in study.scenario.variables
    assert Factor("expiry", (10,)) in study.scenario.variables
    assert read5(study_yaml(study)) == study


def test_what_mqtt_5_adds_has_a_level_without_it(read5, small):
    variables = "    expiry: [none, 60 s]\n    receive_maximum: [none, 1]\n    session_expiry: [1 h, none]\n"
    study = read5(with_keys(small, [FIVE], variables=variables))
    cells = [cell for cell in make_plan(study, missing={}).cells if cell.broker.name == "one"]

    assert read5(study_yaml(study)) == study
    assert {tuple(dict(cell.levels).values())[2:]: cell.workload.mqtt5 for cell in cells} == {
        (expiry, maximum, session): Mqtt5(expiry_s=expiry_s, receive_maximum=most, session_expiry_s=session_s)
        for expiry, expiry_s in (("none", None), (60, 60))
        for maximum, most in (("none", None), (1, 1))
        for session, session_s in ((3600, 3600), ("none", None))
    }
    assert "expiry-none.receive_maximum-1.session_expiry-none" in " ".join(cell.id for cell in cells)


@pytest.mark.parametrize("keys", ["mqtt5: {user_properties: 0, property_bytes: 20 B}", "mqtt5: {expiry: 1 s}"])
def test_the_usual_size_of_a_property_stands_in_every_study_that_is_written_out(read5, small, keys):
    assert read5(with_keys(small, [FIVE, keys])).scenario.workload.mqtt5.property_bytes == 20


@pytest.mark.parametrize(
    ("keys", "variables", "where"),
    [
        ([], "    property_bytes: [10 B, 1000 B]\n", "variables.property_bytes"),
        (["mqtt5: {user_properties: 0}"], "    property_bytes: [10 B]\n", "variables.property_bytes"),
        (["mqtt5: {property_bytes: 30 B}"], "    user_properties: [0]\n", "workload.mqtt5.property_bytes"),
        (["mqtt5: {property_bytes: 30 B}"], "    user_properties: [0, 1]\n", None),
    ],
)
def test_a_size_of_properties_needs_properties(read5, small, keys, variables, where):
    text = with_keys(small, [FIVE, *keys], variables=variables)

    if where is None:
        assert read5(text).scenario.workload.mqtt5.property_bytes == 30
    else:
        with pytest.raises(StudyError) as caught:
            read5(text)
        (found,) = caught.value.problems
        assert f"scenario.{where}: has no effect without user_properties" in str(found)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (["mqtt5: {user_properties: 1}"], 'mqtt5: needs protocol: "5.0"; the study\'s is "3.1.1"'),
        (["protocol: 3.1.1", "mqtt5: {expiry: 1 s}"], 'protocol: "3.1.1": MQTT 3.1.1 has no properties'),
        ([FIVE, "mqtt5: {expiry: 1500 ms}"], "must be whole seconds"),
        ([FIVE, "mqtt5: {receive_maximum: nome}"], 'receive maximum, beside whole numbers; did you mean "none"?'),
        ([FIVE, "mqtt5: {user_property: 1}"], 'did you mean "user_properties"?'),
        ([FIVE, "mqtt5: {topic_alias: 1}"], "must be true or false"),
        (
            [FIVE, "mqtt5: {topic_alias: true}", "clients: {behaviour: per-message}"],
            "needs connections of more than one message",
        ),
        (
            [FIVE, "mqtt5: {user_properties: 1000, property_bytes: 65535}", "payload: 256 MB"],
            'payload: "256 MB": beside 65540000 B of user properties must be at most 202829916 B',
        ),
    ],
)
def test_what_mqtt_5_cannot_add_is_refused(problems, small, keys, said):
    assert any(said in str(problem) for problem in problems(with_keys(small, keys)))
