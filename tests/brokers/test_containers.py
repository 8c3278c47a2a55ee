"""Brokers in containers, on a real engine that is started for these tests, with an image made of this machine's files.

It is a part of `make test-brokers`, which installs the engine (docker.io of Debian).
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import docker
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from broker_rig import CHOICE
from ensemble_rig import Silent, namespaces

from brokerlab.brokers import engine
from brokerlab.brokers.images import AnyImage, container_node
from brokerlab.brokers.pause import root_of
from brokerlab.brokers.port import free_port
from brokerlab.brokers.starting import process_of
from brokerlab.errors import RunError, UserError
from brokerlab.inside import inside
from brokerlab.lab.leftovers import find_leftovers, remove_leftovers
from brokerlab.lab.proof import prove_ready
from brokerlab.lab.run import make_run
from brokerlab.load.client import Client
from brokerlab.record.directory import RunDirectory
from brokerlab.study.facts import DriverFacts
from brokerlab.study.file import read_study
from brokerlab.study.limit_values import Limits
from brokerlab.study.places import Place
from brokerlab.study.plan import make_plan
from brokerlab.study.values import BrokerChoice
from open_guards import OPEN

IMAGE = "brokerlab-test-mosquitto:1"
OFFICIAL = "eclipse-mosquitto:2"  # what the recipe names: here it is ours, under that name
CONFIGURATION = "user root\nlistener {port} {host}\nallow_anonymous true\n"
COMMAND = ("/usr/sbin/mosquitto", "-c", "/etc/m.conf")
READY_S = 30.0
NAMESPACE = f"bl-box-{os.getpid()}"
STUDY = """\
brokerlab: 1
study: boxed
goals:
  question: What do containers carry?
system:
  brokers:
    boxed: {driver: mosquitto-image}
  ensemble: {nodes: 3, join: bridge}
  limits: {cpus: 0.5, memory: 64 MiB}
metrics: [latency, delivery, resources]
scenario:
  workload:
    publishers: 3
    subscribers: 3
    topics: {publish: "plant/{publisher}", subscribe: "plant/#"}
    schedule: {rate: 20/s}
    qos: 1
  topology: {shape: mesh, sites: 3, rtt: 2 ms}
deploy:
  repetitions: 1
  phases: {warmup: 0.5 s, measure: 3 s, drain: 5 s}
"""

pytestmark = pytest.mark.skipif(
    os.environ.get(CHOICE, "quick") == "quick", reason="an engine is started by make test-brokers only"
)


@dataclass(frozen=True)
class Engine:
    client: docker.DockerClient

    def names(self) -> list[str]:
        return [each.name for each in self.client.containers.list(all=True)]


@pytest.fixture(scope="module")
def box(tmp_path_factory):
    """An engine without bridge and firewall rules, which few machines for tests let it have."""
    path = os.environ["PATH"] + ":/usr/sbin"
    dockerd = shutil.which("dockerd", path=path)
    if os.geteuid() != 0 or dockerd is None or shutil.which("mosquitto", path=path) is None:
        pytest.skip("needs root, dockerd and mosquitto")
    folder = tmp_path_factory.mktemp("engine")
    socket = f"unix://{folder}/d.sock"
    options = [f"--data-root={folder}/data", f"--exec-root={folder}/exec", f"--pidfile={folder}/pid"]
    options += ["--iptables=false", "--ip6tables=false", "--bridge=none", "--storage-driver=vfs"]
    with (folder / "log").open("wb") as log:
        daemon = subprocess.Popen([dockerd, "-H", socket, *options], stdout=log, stderr=log)
    try:
        client = _ready(daemon, socket, folder)
        root = root_of("/usr/sbin/mosquitto", "/bin/sh", "/bin/sleep")
        client.api.import_image_from_data(root, repository=IMAGE.partition(":")[0], tag="1")
        client.images.get(IMAGE).tag(OFFICIAL)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("DOCKER_HOST", socket)
            engine.images.cache_clear()
            yield Engine(client)
            assert Engine(client).names() == [], "something of ours was left"
            client.close()
    finally:
        daemon.terminate()
        daemon.wait(30)
        engine.images.cache_clear()
        for left in (folder / "exec" / "netns").glob("*"):
            if os.path.ismount(left):  # a file, so Path.is_mount says no; the engine leaves that of its host
                subprocess.run(["umount", left], check=True)


def _ready(daemon, socket, folder):
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline:
        if daemon.poll() is not None:
            pytest.skip(f"no engine runs here: {(folder / 'log').read_text()[-300:]}")
        with contextlib.suppress(UserError):
            return engine.connect(socket).client
        time.sleep(0.1)
    raise AssertionError(f"no engine after {READY_S:g} s: {(folder / 'log').read_text()[-300:]}")


@pytest.fixture
def namespace():
    subprocess.run(["ip", "netns", "add", NAMESPACE], check=True)
    subprocess.run(["ip", "-n", NAMESPACE, "link", "set", "lo", "up"], check=True)
    yield NAMESPACE
    subprocess.run(["ip", "netns", "delete", NAMESPACE], check=True)


def choice(**more) -> BrokerChoice:
    options = {"image": IMAGE, "command": list(COMMAND), "files": {"/etc/m.conf": CONFIGURATION}}
    return BrokerChoice("boxed", "image", options=options | more)


def node_on(port, folder, **more):
    return AnyImage().node(choice(**more), folder=folder, host="127.0.0.1", port=port)


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_delivers_on_this_machines_network(box, tmp_path, qos):
    port = free_port("127.0.0.1")
    with process_of(node_on(port, tmp_path / "0"), folder=tmp_path / "0") as process:
        prove_ready(process, "127.0.0.1", port)
        assert process.is_ours  # the listener was proved to be its own
        with Client("127.0.0.1", port) as client:
            client.subscribe("a/#", qos)
            client.publish("a/b", b"hello", qos=qos)
            message = client.receive(timeout_s=10)
        assert message is not None
        assert message.payload == b"hello"
    assert box.names() == []
    assert "mosquitto version" in (tmp_path / "0.log").read_text()
    assert (tmp_path / "0" / "etc" / "m.conf").read_text().startswith("user root")  # the exact file stays


def test_is_in_a_namespace_of_ours(box, tmp_path, namespace):
    node = container_node(
        image=IMAGE,
        argv=COMMAND,
        env={},
        files={"/etc/m.conf": CONFIGURATION.format(host="127.0.0.1", port=1883)},
        data=(),
        host="127.0.0.1",
        port=1883,
    )
    with process_of(node, folder=tmp_path / "0", place=Place("node 0", "127.0.0.1", namespace)) as process:
        with inside(namespace):
            prove_ready(process, "127.0.0.1", 1883)
        pid = process.pids()[0]
        assert Path(f"/proc/{pid}/ns/net").stat().st_ino == Path(f"/run/netns/{namespace}").stat().st_ino
        with pytest.raises(RunError, match="refused"):
            Client("127.0.0.1", 1883, timeout_s=2)
    assert box.names() == []


def test_limits_are_the_engines(box, tmp_path):
    port = free_port("127.0.0.1")
    limits = Limits(cpus=0.5, memory_bytes=64 << 20)
    process = process_of(node_on(port, tmp_path / "0"), folder=tmp_path / "0", limits=limits)
    with process:
        prove_ready(process, "127.0.0.1", port)
        (name,) = box.names()
        told = box.client.containers.get(name).attrs["HostConfig"]
        assert (told["NanoCpus"], told["Memory"]) == (500_000_000, 64 << 20)
    section = process.cage.section()
    assert section["effect"]["memory_peak_bytes"] > 0
    assert section["effect"]["periods"] > 0


def made_run(tmp_path, *settings):
    path = tmp_path / "study.yaml"
    path.write_text(STUDY, encoding="utf-8")
    study = read_study(path, settings=settings, drivers={"mosquitto-image": DriverFacts()})
    study = replace(study, analysis=OPEN)
    (run,) = make_plan(study, missing={}).runs
    directory = RunDirectory(tmp_path / "run")
    verdict = make_run(run, study, directory, watcher=Silent())
    assert verdict.value != "collapsed", verdict
    return directory, json.loads(directory.manifest_path.read_text(encoding="utf-8"))


def raw(directory, kind):
    return pa.concat_tables([pq.read_table(file) for file in sorted(directory.raw(kind).glob("*.parquet"))])


def test_run_of_one_container_is_as_that_of_a_process(box, tmp_path):
    alone = ("system.ensemble={nodes: 1, join: none}", "scenario.topology=loopback")
    directory, manifest = made_run(tmp_path, *alone)

    assert manifest["limits"]["effect"]["memory_peak_bytes"] > 0
    received = "$SYS/broker/publish/messages/received"
    assert received not in manifest["counting"]["not_comparable"]  # and so it was compared
    assert manifest["verdict"] == {"value": "valid", "reasons": []}
    assert received in raw(directory, "counters").column("name").to_pylist()
    assert raw(directory, "deliveries").num_rows == 3 * raw(directory, "publications").num_rows
    assert set(raw(directory, "resources").column("node").to_pylist()) >= {"broker/0"}
    assert "mosquitto version" in (directory.broker / "0.log").read_text()
    assert box.names() == []


def test_run_of_three_containers_in_namespaces_of_ours(box, tmp_path):
    """Bridged by processes of ours; limits, counters, logs and samples of each."""
    directory, manifest = made_run(tmp_path)

    nodes = manifest["broker"]["nodes"]
    assert len({node["namespace"] for node in nodes} - {None}) == 3
    assert (manifest["crossing"]["ways"], manifest["members"]["departures"]) == (6, [])
    assert [each["effect"]["memory_peak_bytes"] > 0 for each in manifest["limits"]["nodes"]] == [True] * 3
    assert raw(directory, "deliveries").num_rows == 3 * raw(directory, "publications").num_rows
    names = {f"broker/{number}" for number in range(3)}
    assert set(raw(directory, "resources").column("node").to_pylist()) >= names
    assert set(raw(directory, "counters").column("node").to_pylist()) == names
    for number in range(3):
        assert "mosquitto version" in (directory.broker / f"{number}.log").read_text()
    assert box.names() == []
    ours = nodes[0]["namespace"].rpartition("-")[0]
    assert [name for name in namespaces() if name.startswith(ours)] == []


def test_container_that_ends_at_once_tells_its_last_words(box, tmp_path):
    port = free_port("127.0.0.1")
    node = node_on(port, tmp_path / "0", files={"/etc/m.conf": "no_such_setting {port}\n"})
    with (
        pytest.raises(RunError, match="no_such_setting"),
        process_of(node, folder=tmp_path / "0") as process,
    ):
        prove_ready(process, "127.0.0.1", port)
    assert box.names() == []


def test_image_that_is_not_there_is_refused_before_anything_starts(box, tmp_path):
    with pytest.raises(UserError, match="no image nobody/nothing:latest"):
        node_on(free_port("127.0.0.1"), tmp_path, image="nobody/nothing")
    assert box.names() == []


def test_image_that_cannot_be_told_its_port_wants_a_namespace(box, tmp_path):
    with pytest.raises(UserError, match="listens on port 1883"):
        node_on(10_001, tmp_path, files={"/etc/m.conf": "listener 1883\n"})


def test_what_a_killed_brokerlab_left_is_removed(box, tmp_path, monkeypatch):
    monkeypatch.setenv("BROKERLAB_STATE", str(tmp_path / "state"))
    port = free_port("127.0.0.1")
    text = f"""
import sys, time
from pathlib import Path
sys.path[:] = {sys.path!r}  # what pytest put there, for this file and what it imports
import test_containers as own
with own.process_of(own.node_on({port}, Path({str(tmp_path)!r}) / "0"), folder=Path({str(tmp_path)!r}) / "0"):
    print("up", flush=True)
    time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True) as other:
        told = other.stdout.readline()
        other.send_signal(signal.SIGKILL)
    assert told == "up\n"

    assert len(box.names()) == 1  # an engine keeps what it was told to run
    (leftover,) = find_leftovers().leftovers
    assert len(leftover.containers) == 1
    _, problems = remove_leftovers()
    assert (problems, box.names()) == ([], [])
