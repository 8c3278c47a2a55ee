"""Brokers in containers, on a real engine that is started for these tests, with an image made of this machine's files.

It is a part of `make test-brokers`, which installs the engine (docker.io of Debian).
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import docker
import pytest
from broker_rig import CHOICE

from brokerlab.brokers import engine
from brokerlab.brokers.images import AnyImage, container_node
from brokerlab.brokers.pause import root_of
from brokerlab.brokers.port import free_port
from brokerlab.brokers.starting import process_of
from brokerlab.errors import RunError, UserError
from brokerlab.inside import inside
from brokerlab.lab.leftovers import find_leftovers, remove_leftovers
from brokerlab.lab.proof import prove_ready
from brokerlab.load.client import Client
from brokerlab.study.limit_values import Limits
from brokerlab.study.values import BrokerChoice

IMAGE = "brokerlab-test-mosquitto:1"
CONFIGURATION = "user root\nlistener {port} {host}\nallow_anonymous true\n"
COMMAND = ("/usr/sbin/mosquitto", "-c", "/etc/m.conf")
READY_S = 30.0
NAMESPACE = f"bl-box-{os.getpid()}"

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
    with process_of(node, folder=tmp_path / "0", namespace=namespace) as process:
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
sys.path.insert(0, {str(Path(__file__).parent)!r})
import test_containers as own
with own.process_of(own.node_on({port}, Path({str(tmp_path)!r}) / "0"), folder=Path({str(tmp_path)!r}) / "0"):
    print("up", flush=True)
    time.sleep(600)
"""
    other = subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True)
    assert other.stdout.readline() == "up\n"
    other.send_signal(signal.SIGKILL)
    other.wait(30)
    other.stdout.close()

    assert len(box.names()) == 1  # an engine keeps what it was told to run
    (leftover,) = find_leftovers().leftovers
    assert len(leftover.containers) == 1
    _, problems = remove_leftovers()
    assert (problems, box.names()) == ([], [])
