"""The generators that are measured beside ours: how each is started, as fast as it goes, until it is stopped."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

from bench.broker import HOST, PAYLOAD_BYTES

TOPIC = "bench/0"
FOR_EVER = 100_000_000
Commands = tuple[list[list[str]], list[list[str]]]  # subscribers, then publishers


@dataclass(frozen=True, slots=True)
class Load:
    port: int
    qos: int
    publishers: int
    subscribers: int


@dataclass(frozen=True, slots=True)
class Tool:
    name: str
    program: str  # that must be on the path; empty where it comes with us
    commands: Callable[[Load], Commands]
    qos: tuple[int, ...] = (0, 1, 2)
    level: int = 4  # of the protocol that it speaks

    @property
    def is_here(self) -> bool:
        return not self.program or shutil.which(self.program) is not None


def _mosquitto(load: Load) -> Commands:
    where = ["-h", HOST, "-p", str(load.port), "-t", TOPIC, "-q", str(load.qos)]
    write = ["mosquitto_pub", *where, "--repeat", str(FOR_EVER), "-m", "x" * PAYLOAD_BYTES]
    return [["mosquitto_sub", *where]] * load.subscribers, [write] * load.publishers


def _paho(load: Load) -> Commands:
    paho, where = [sys.executable, "-m", "bench.paho_client"], [str(load.port), str(load.qos)]
    return [[*paho, "subscribe", *where]] * load.subscribers, [[*paho, "publish", *where]] * load.publishers


def _mqttwrk(load: Load) -> Commands:
    return [], [
        [
            "mqttwrk", "bench", "-S", HOST, "-P", str(load.port), "-n", str(FOR_EVER), "-m", str(PAYLOAD_BYTES),
            "-p", str(load.publishers), "-s", str(load.subscribers),
            "--publish-qos", str(load.qos), "--subscribe-qos", str(load.qos),
        ]
    ]  # fmt: skip


def _mqttv5(load: Load) -> Commands:
    return [], [
        [
            "mqttv5", "bench", "--mode", "throughput", "--duration", "60", "--warmup", "0", "-H", HOST,
            "-p", str(load.port), "--payload-size", str(PAYLOAD_BYTES), "-q", str(load.qos),
            "--publishers", str(load.publishers), "--subscribers", str(load.subscribers),
        ]
    ]  # fmt: skip


MQTTWRK = Tool("mqttwrk", "mqttwrk", _mqttwrk, qos=(0, 1))  # aborts at QoS 2
TOOLS = (
    Tool("mosquitto_pub/sub", "mosquitto_pub", _mosquitto),
    Tool("paho", "", _paho),
    MQTTWRK,
    Tool("mqttv5-cli", "mqttv5", _mqttv5, level=5),
)


def start(commands: list[list[str]]) -> list["subprocess.Popen[bytes]"]:
    quiet = subprocess.DEVNULL
    return [subprocess.Popen(each, stdin=quiet, stdout=quiet, stderr=quiet) for each in commands]


def stop(processes: list["subprocess.Popen[bytes]"]) -> None:
    for process in processes:
        process.kill()
    for process in processes:
        process.wait()
