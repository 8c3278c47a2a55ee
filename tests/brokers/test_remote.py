"""Runs against a broker that somebody else started: a Mosquitto which lets us do no more than it must."""

import json

import pyarrow.dataset as ds
import pytest
from broker_rig import HOST

from brokerlab.brokers.base import Missing, Node, Security
from brokerlab.brokers.port import free_port
from brokerlab.brokers.process import BrokerProcess
from brokerlab.brokers.registry import DRIVERS, driver
from brokerlab.brokers.running import Reached
from brokerlab.cli.studies import _facts
from brokerlab.errors import RunError, UserError
from brokerlab.lab.certificates import Authority, keep
from brokerlab.lab.proof import prove_ready
from brokerlab.lab.remote import require_answers
from brokerlab.lab.run import make_run
from brokerlab.load.client import Login
from brokerlab.load.spec import Entrance
from brokerlab.record.directory import RunDirectory
from brokerlab.record.manifest import read_manifest
from brokerlab.study.file import read_study
from brokerlab.study.plan import make_plan
from brokerlab.study.values import BrokerChoice, Transport

pytestmark = pytest.mark.brokers
PASSWORD = "xyzzy-is-secret"

STUDY = """
brokerlab: 1
study: s
goals: {{question: "?", rank_by: latency.p50}}
system: {{brokers: {{cloud: {{driver: remote, options: {options}}}}}}}
metrics: [latency]
scenario:
  workload: {{publishers: 2, schedule: {{rate: 100/s}}, transport: tls, {more}}}
  variables: {{broker: [cloud], qos: [1]}}
deploy: {{phases: {{warmup: 100 ms, measure: 400 ms, drain: 5 s}}}}
analysis: {{guards: {{generator_cpu: 100 %, schedule_lag_p99: 1 s}}}}
"""


class Nobody:
    def phase_started(self, name, seconds):
        pass


@pytest.fixture(scope="module")
def somebodys(tmp_path_factory):
    """(process, options): alice may do what she likes below my/own, and read what the broker says of itself."""
    mosquitto, folder = driver("mosquitto"), tmp_path_factory.mktemp("somebodys")
    if isinstance(found := mosquitto.find(), Missing):
        pytest.skip(found.reason)
    authority = Authority()
    trusted = keep(folder, "authority.pem", authority.pem)
    certificate, key = (keep(folder, f"{number}.pem", pem) for number, pem in enumerate(authority.broker(HOST)))
    security = Security(
        Transport.TLS,
        certificate=certificate,
        key=key,
        users={"alice": PASSWORD},
        folder=folder,
        readable=("my/own/#", "$SYS/#"),
        writable=("my/own/#",),
    )
    choice = BrokerChoice("m", "mosquitto")
    node = mosquitto.node(choice, folder=folder / "0", host=HOST, port=free_port(HOST), security=security)
    with BrokerProcess(node, folder=folder / "0") as process:
        login = Login(Entrance(Transport.TLS, authority=trusted), "alice", PASSWORD.encode())
        prove_ready(process, node.host, node.port, login=login, prefix="my/own/")
        address = f"{node.host}:{node.port}"
        yield (
            process,
            {
                "address": address,
                "authority": str(trusted),
                "prefix": "my/own",
                "user": "alice",
                "password": "env:OF_ALICE",
            },
        )


@pytest.mark.parametrize(
    "more",
    [
        "probe: {every: 50 ms}, will: {}, subscriptions: {table: 50, kind: wildcard, clients: 2}",
        "start: control, role: echo, topics: {depth: 4}",
    ],
)
def test_everything_of_a_run_is_below_the_prefix_and_the_broker_stays_as_it_is(somebodys, more, tmp_path, monkeypatch):
    process, options = somebodys
    monkeypatch.setenv("OF_ALICE", PASSWORD)
    file = tmp_path / "study.yaml"
    file.write_text(STUDY.format(options=json.dumps(options), more=more))
    study = read_study(file, drivers={name: _facts(each, each.find()) for name, each in DRIVERS.items()})
    run = make_plan(study, missing={}).runs[0]

    verdict = make_run(run, study, RunDirectory(tmp_path / "run"), watcher=Nobody())

    assert verdict.value != "collapsed", verdict.reasons  # a busy machine may make it invalid
    manifest = read_manifest(tmp_path / "run" / "manifest.json")
    assert manifest["meter"]["shares_cores_with_broker"] is True  # somebody's it is, but on this machine
    told = manifest["broker"]
    assert (told["is_remote"], told["address"], told["command"]) == (True, options["address"], [])
    assert told["version"].startswith("mosquitto version ")
    assert manifest["counting"]["failure"] is None
    nodes = set(ds.dataset(tmp_path / "run" / "resources").to_table().column("node").to_pylist())
    assert nodes
    assert "broker/0" not in nodes
    assert ds.dataset(tmp_path / "run" / "deliveries").count_rows() == 100
    kept = b"".join(path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file())
    assert PASSWORD.encode() not in kept
    process.require_alive("the end")


def test_wrong_password_ends_the_run_with_what_the_broker_said(somebodys, tmp_path, monkeypatch):
    _, options = somebodys
    monkeypatch.setenv("OF_ALICE", "not hers")
    file = tmp_path / "study.yaml"
    file.write_text(STUDY.format(options=json.dumps(options), more="retain: false"))
    study = read_study(file, drivers={name: _facts(each, each.find()) for name, each in DRIVERS.items()})

    verdict = make_run(
        make_plan(study, missing={}).runs[0], study, RunDirectory(tmp_path / "run"), watcher=Nobody()
    )  # fmt: skip

    assert verdict.value == "collapsed"
    assert "CONNACK return code 5" in verdict.reasons[0]


def test_nobody_at_the_address_is_said_with_a_hint():
    with pytest.raises(RunError, match="waited in vain for a CONNACK") as caught:
        prove_ready(Reached(Node((), HOST, free_port(HOST))), HOST, 1, deadline_s=0.1)

    assert "may this machine reach it?" in caught.value.hint


def _with_nobody(options):
    return {**options, "address": f"{HOST}:{free_port(HOST)}"}


def _without_authority(options):
    return {name: value for name, value in options.items() if name != "authority"}


@pytest.mark.parametrize(
    ("changed", "password", "said"),
    [
        (_with_nobody, PASSWORD, "Connection refused"),
        (_without_authority, PASSWORD, "certificate is refused"),
        (dict, "not hers", "CONNACK return code 5"),
    ],
)
def test_who_does_not_let_us_in_is_told_before_the_first_run(somebodys, changed, password, said, tmp_path, monkeypatch):
    """C-01."""
    _, options = somebodys
    monkeypatch.setenv("OF_ALICE", password)
    file = tmp_path / "study.yaml"
    file.write_text(STUDY.format(options=json.dumps(changed(options)), more="retain: false"))
    study = read_study(file, drivers={name: _facts(each, each.find()) for name, each in DRIVERS.items()})

    with pytest.raises(UserError, match=said) as caught:
        require_answers(make_plan(study, missing={}).cells)

    assert caught.value.message.startswith("broker cloud (transport tls): ")
    assert "\n" not in caught.value.message
