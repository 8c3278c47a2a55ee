"""The generators that are measured beside ours: how each is started, as fast as it goes, until it is stopped.

Those that publish and do not hear meanwhile are heard by mosquitto_sub, whose CPU is not counted: that flatters them.
One that takes its settings from a file alone gets it in the folder of its round.
"""

import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from bench.broker import HOST, PAYLOAD_BYTES

TOPIC = "bench/0"
FOR_EVER = 100_000_000
Commands = tuple[list[list[str]], list[list[str]]]  # subscribers, then publishers
_IN_FLIGHT = 100  # of those that must be told, as mqttwrk has it
_HELP_S = 10.0


@dataclass(frozen=True, slots=True)
class Load:
    port: int
    qos: int
    publishers: int
    subscribers: int
    folder: Path = Path()


@dataclass(frozen=True)
class Tool:
    name: str
    program: str  # that must be on the path; empty where it comes with us
    commands: Callable[[Load], Commands]
    qos: tuple[int, ...] = (0, 1, 2)
    level: int = 4  # of the protocol that it speaks
    says: str = ""  # in its help, where another tool has the same name
    is_deaf: bool = False  # publishes only, or reads nothing before it has published everything
    is_single: bool = False  # its publishers have topics of different lengths, so that bytes tell the messages of one
    connects: Callable[[int, int], list[str]] | None = None  # the command that opens so many connections to a port

    @cached_property
    def is_here(self) -> bool:
        needed = [self.program, *(["mosquitto_sub"] if self.is_deaf else [])]
        return not self.program or (all(map(shutil.which, needed)) and self.says in (self._help() if self.says else ""))

    def can(self, qos: int, publishers: int, subscribers: int) -> bool:
        """What a deaf one costs is that of publishing: with several deliveries of a message each would look cheap."""
        is_left_out = (self.is_single and publishers > 1) or (self.is_deaf and subscribers > 1)
        return qos in self.qos and not is_left_out

    def _help(self) -> str:
        said = subprocess.run([self.program, "--help"], capture_output=True, text=True, timeout=_HELP_S, check=False)
        return said.stdout + said.stderr


def _heard(load: Load) -> list[list[str]]:
    """The ears of those that have none."""
    where = ["-h", HOST, "-p", str(load.port), "-t", "bench/#", "-q", str(load.qos)]
    return [["mosquitto_sub", *where]] * load.subscribers


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


def _emqtt(load: Load) -> Commands:
    where = ["-h", HOST, "-p", str(load.port), "-V", "4", "-i", "1", "-t", TOPIC, "-q", str(load.qos)]
    write = ["emqtt_bench", "pub", *where, "-c", str(load.publishers), "-s", str(PAYLOAD_BYTES)]
    return [["emqtt_bench", "sub", *where, "-c", str(load.subscribers)]], [
        [*write, "-I", "0", "-F", str(_IN_FLIGHT)],
    ]


def _emqtt_connects(port: int, count: int) -> list[str]:
    return ["emqtt_bench", "conn", "-h", HOST, "-p", str(port), "-V", "4", "-c", str(count), "-R", "20000"]


def _stresser(load: Load) -> Commands:
    """Its own subscriber takes nothing from its socket as long as it publishes."""
    return _heard(load), [
        [
            "mqtt-stresser", "-broker", f"tcp://{HOST}:{load.port}", "-topic-base-path", TOPIC.partition("/")[0],
            "-num-clients", str(load.publishers), "-num-messages", str(FOR_EVER),
            "-constant-payload", "x" * PAYLOAD_BYTES, "-no-progress", "-global-timeout", "10m",
            "-publisher-qos", str(load.qos), "-subscriber-qos", str(load.qos),
        ]
    ]  # fmt: skip


def _stresser_connects(port: int, count: int) -> list[str]:
    """Each of its clients has two connections; after its first message it waits."""
    return [
        "mqtt-stresser", "-broker", f"tcp://{HOST}:{port}", "-num-clients", str(count // 2), "-num-messages", "2",
        "-pause-between-messages", "10m", "-global-timeout", "10m", "-no-progress",
        "-rampup-size", str(count), "-rampup-delay", "0s", "-timeout", "60s",
    ]  # fmt: skip


def _go_benchmark(load: Load) -> Commands:
    return _heard(load), [
        [
            "mqtt-benchmark", "-broker", f"tcp://{HOST}:{load.port}", "-topic", TOPIC, "-size", str(PAYLOAD_BYTES),
            "-clients", str(load.publishers), "-count", str(FOR_EVER), "-message-interval", "0", "-quiet",
            "-qos", str(load.qos),
        ]
    ]  # fmt: skip


def _rust_benchmark(load: Load) -> Commands:
    """It takes the name of a host and no address, and adds the number of the client to the topic."""
    return _heard(load), [
        [
            "mqtt-benchmark", "--broker", f"localhost:{load.port}", "--topic", TOPIC.partition("/")[0],
            "--payload", "x" * PAYLOAD_BYTES, "--size", str(FOR_EVER), "--client-num", str(load.publishers),
            "--qos", str(load.qos),
        ]
    ]  # fmt: skip


def _mqtt_bench(load: Load) -> Commands:
    """It adds the number of the client to the topic."""
    return _heard(load), [
        [
            "mqtt-bench", "-broker", f"tcp://{HOST}:{load.port}", "-action", "pub", "-pretime", "0",
            "-topic", TOPIC.partition("/")[0], "-size", str(PAYLOAD_BYTES), "-count", str(FOR_EVER),
            "-clients", str(load.publishers), "-qos", str(load.qos),
        ]
    ]  # fmt: skip


def _mqttloader(load: Load) -> Commands:
    settings = {
        "broker": HOST, "broker_port": load.port, "mqtt_version": 3, "topic": TOPIC, "payload": PAYLOAD_BYTES,
        "num_publishers": load.publishers, "num_subscribers": load.subscribers, "num_messages": FOR_EVER,
        "qos_publisher": load.qos, "qos_subscriber": load.qos, "exec_time": 600, "output": load.folder,
    }  # fmt: skip
    file = load.folder / "mqttloader.conf"
    file.write_text("".join(f"{key} = {value}\n" for key, value in settings.items()), encoding="utf-8")
    return [], [["mqttloader", "-c", str(file)]]


def _mqttx(load: Load) -> Commands:
    """A message a millisecond of each publisher is as fast as it goes."""
    where = ["-h", HOST, "-p", str(load.port), "-V", "3.1.1", "-i", "1", "-t", TOPIC, "-q", str(load.qos)]
    write = ["mqttx", "bench", "pub", *where, "-c", str(load.publishers), "-m", "x" * PAYLOAD_BYTES]
    return [["mqttx", "bench", "sub", *where, "-c", str(load.subscribers)]], [[*write, "-im", "1"]]


def _mqttwrk_connects(port: int, count: int) -> list[str]:
    """Its publishers all connect before the first message."""
    return _mqttwrk(Load(port, qos=0, publishers=count, subscribers=1))[1][0]


TOOLS = (
    Tool("mosquitto_pub/sub", "mosquitto_pub", _mosquitto),
    Tool("paho", "", _paho),
    Tool("mqttwrk", "mqttwrk", _mqttwrk, qos=(0, 1), connects=_mqttwrk_connects),  # aborts at QoS 2
    Tool("mqttv5-cli", "mqttv5", _mqttv5, level=5),
    Tool("emqtt-bench", "emqtt_bench", _emqtt, connects=_emqtt_connects),
    Tool("mqtt-stresser", "mqtt-stresser", _stresser, is_deaf=True, is_single=True, connects=_stresser_connects),
    Tool("mqtt-benchmark (Go)", "mqtt-benchmark", _go_benchmark, says="-message-interval", is_deaf=True),
    Tool("mqtt-benchmark (Rust)", "mqtt-benchmark", _rust_benchmark, says="--client-num", is_deaf=True),
    Tool("mqtt-bench", "mqtt-bench", _mqtt_bench, is_deaf=True),
    Tool("MQTTLoader", "mqttloader", _mqttloader),
    Tool("MQTTX", "mqttx", _mqttx),
)


def start(commands: list[list[str]]) -> list["subprocess.Popen[bytes]"]:
    quiet = subprocess.DEVNULL
    return [subprocess.Popen(each, stdin=quiet, stdout=quiet, stderr=quiet) for each in commands]


def stop(processes: list["subprocess.Popen[bytes]"]) -> None:
    for process in processes:
        process.kill()
    for process in processes:
        process.wait()
