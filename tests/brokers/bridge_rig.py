"""Two Mosquittos with a bridge between them that can be killed and started again in no time, and a ledger."""

import contextlib
import json
import multiprocessing
import os
import shutil
import signal
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

from brokerlab.bridge.file import read_bridge
from brokerlab.bridge.program import Program
from brokerlab.brokers.base import Node
from brokerlab.brokers.port import free_port
from brokerlab.brokers.process import BrokerProcess
from brokerlab.errors import LabError
from brokerlab.lab.proof import prove_ready
from brokerlab.load.client import Client

HOST = "127.0.0.1"
MOSQUITTO = shutil.which("mosquitto", path=os.environ["PATH"] + ":/usr/sbin")
CONFIG = """\
listener {port} 127.0.0.1
allow_anonymous true
user root
max_queued_messages 0
set_tcp_nodelay true
persistence true
persistence_location {folder}/
"""
_PATIENCE_S = 60.0  # a fresh clone compiles the bridge when the first one starts
# A server that has everything imported forks each bridge: a real process, there in some milliseconds.
_forks = multiprocessing.get_context("forkserver")
_forks.set_forkserver_preload(["brokerlab.bridge.program", "brokerlab.bridge.file", "bridge_rig"])


class Mosquitto:
    """One that keeps its sessions while it is stopped."""

    def __init__(self, folder, config):
        self._folder, self.port, self._starts = folder, free_port(HOST), 0
        kept = folder.with_name(f"{folder.name}-kept")
        kept.mkdir(parents=True)
        files = {"mosquitto.conf": config.format(port=self.port, folder=kept)}
        self.node = Node((MOSQUITTO, "-c", "mosquitto.conf"), HOST, self.port, files)
        self.start()

    def start(self):
        self._process = BrokerProcess(self.node, folder=self._folder.with_name(f"{self._folder.name}{self._starts}"))
        self._process.start()
        self._starts += 1
        prove_ready(self._process, HOST, self.port)

    def stop(self):
        self._process.stop()

    @property
    def pid(self):
        return self._process.pid


@contextlib.contextmanager
def mosquitto(folder, *, config=CONFIG):
    broker = Mosquitto(folder, config)
    try:
        yield broker
    finally:
        broker.stop()


def _run(path, out, environment):
    """In the child."""
    os.environ.update(environment)
    with Path(out).open("a", encoding="utf-8") as file:
        sys.stdout = sys.stderr = file

        def say(text):
            print(text, file=file, flush=True)

        try:
            counters = Program(read_bridge(Path(path)), say=say, announce=say).run()
        except LabError as error:
            say(error.message)
            os._exit(error.exit_code)
        except Exception:  # noqa: BLE001 - told to the test, which expects none
            say(traceback.format_exc())
            os._exit(70)
        say(json.dumps([{name: getattr(each, name) for name in each.__slots__} for each in counters]))
    os._exit(0)


class Bridge:
    """One bridge file, and its process while there is one."""

    def __init__(self, folder, text, **environment):
        folder.mkdir(exist_ok=True)
        self._environment = environment
        self.path, self.out = folder / "bridge.yaml", folder / "out.txt"
        self.path.write_text(text)
        self._process = None

    def start(self, *, joins=True):
        self.out.write_text("")
        self._process = _forks.Process(
            target=_run, args=(str(self.path), str(self.out), self._environment), daemon=False
        )
        self._process.start()
        if joins:
            self.wait_for("joined")
        return self

    def wait_for(self, text, *, patience_s=_PATIENCE_S, times=1):
        deadline = time.monotonic() + patience_s
        while self.said().count(text) < times:
            assert self._process.is_alive(), f"the bridge ended: {self.said()}"
            assert time.monotonic() < deadline, f"no {text!r} in {patience_s} s: {self.said()}"
            time.sleep(0.005)

    @property
    def pid(self):
        return self._process.pid

    def said(self):
        return self.out.read_text()

    def kill(self):
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.join()

    def stop(self):
        """The counters of every route that it tells at its end."""
        assert self._process.is_alive(), self.said()
        os.kill(self._process.pid, signal.SIGTERM)
        assert self.ended() == 0, self.said()
        return json.loads(self.said().splitlines()[-1])

    def ended(self):
        self._process.join(_PATIENCE_S)
        return self._process.exitcode

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._process is not None and self._process.is_alive():
            self.kill()


def bridge_text(source_port, target_port, *, route="", more="", protocol="3.1.1"):
    return f"""\
bridge: 1
name: test
brokers:
  here: {{address: "{HOST}:{source_port}", protocol: "{protocol}"}}
  there: {{address: "{HOST}:{target_port}", protocol: "{protocol}"}}
routes:
  up: {{from: here, to: there, subscribe: "t/#"{route}}}
{more}"""


class Ledger:
    """What was acknowledged to the publisher, and how often each of it arrived."""

    def __init__(self):
        self.acknowledged, self.arrived = [], []

    def publish(self, client, count, *, qos, topics=3):
        for number in range(len(self.acknowledged), len(self.acknowledged) + count):
            client.publish(f"t/{number % topics}", b"%d" % number, qos=qos)
            self.acknowledged.append(number)

    def hear(self, client, *, patience_s=5.0, quiet_s=0.3):
        """Until all of it is here, and then a little longer, for what should not come."""
        missing = set(self.acknowledged) - set(self.arrived)
        deadline = time.monotonic() + patience_s
        while missing and time.monotonic() < deadline:
            if (message := client.receive(timeout_s=0.2)) is not None:
                self._note(message)
                missing.discard(self.arrived[-1])
        while (message := client.receive(timeout_s=quiet_s)) is not None:
            self._note(message)

    def _note(self, message):
        self.arrived.append(int(message.payload.split()[0]))

    @property
    def lost(self):
        return sorted(set(self.acknowledged) - set(self.arrived))

    @property
    def duplicated(self):
        return sorted(number for number, count in Counter(self.arrived).items() if count > 1)

    def overtaken(self, *, topics=3):
        """First arrivals behind a later one of their topic."""
        highest, found = {}, []
        for number in dict.fromkeys(self.arrived):
            if number < highest.get(number % topics, -1):
                found.append(number)
            highest[number % topics] = max(number, highest.get(number % topics, -1))
        return found


def client(process, **more):
    return Client(HOST, process.node.port, **more)
