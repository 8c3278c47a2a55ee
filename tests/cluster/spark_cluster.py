"""A real standalone cluster on this machine, from the pip installation of pyspark: a master and two workers.

    with standalone(folder) as master: ...        spark://127.0.0.1:PORT
    with connect_server(folder, master) as url:   sc://127.0.0.1:PORT, its executors on the cluster

Every process is started in a session of its own and stopped by its number, with what it started.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from brokerlab import inventory
from brokerlab.brokers.port import free_port
from brokerlab.pipeline.java import use_java

HOME = Path(pyspark.__file__).parent
WORKERS = 2
_LONGEST_START_S = 120.0


@contextmanager
def standalone(folder: Path) -> Iterator[str]:
    """The master's URL, when both workers have registered with it."""
    log = folder / "master.log"
    with _program(
        log, "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0"
    ):
        url = _awaited(log, r"Starting Spark master at (spark://\S+)")
        with _workers(folder, url, WORKERS):
            _awaited(log, r"(Registering worker .*\s[\s\S]*Registering worker .*)")
            yield url


@contextmanager
def _workers(folder: Path, url: str, number: int) -> Iterator[None]:
    if number == 0:
        yield
        return
    words = ("--host", "127.0.0.1", "--webui-port", "0", "-c", "2", "-m", "2g", "-d", str(folder / f"work-{number}"))
    with (
        _program(folder / f"worker-{number}.log", "org.apache.spark.deploy.worker.Worker", *words, url),
        _workers(folder, url, number - 1),
    ):
        yield


@contextmanager
def connect_server(folder: Path, master: str) -> Iterator[str]:
    """The URL of a Spark Connect server whose work is done by `master`."""
    port = free_port("127.0.0.1")
    log = folder / "connect.log"
    words = [
        "org.apache.spark.deploy.SparkSubmit", "--master", master,
        "--class", "org.apache.spark.sql.connect.service.SparkConnectServer",
        "--conf", f"spark.connect.grpc.binding.port={port}", "--conf", "spark.driver.host=127.0.0.1",
        "--conf", "spark.ui.enabled=false", "--conf", "spark.executor.memory=1g",
        "--conf", f"spark.pyspark.python={sys.executable}", "--conf", f"spark.pyspark.driver.python={sys.executable}",
        "--conf", f"spark.sql.warehouse.dir={folder / 'warehouse'}",
    ]  # fmt: skip
    with _program(log, *words, "spark-internal", memory="1g"):
        _awaited(log, r"(Spark Connect server started at)")
        yield f"sc://127.0.0.1:{port}"


@contextmanager
def _program(log: Path, *words: str, memory: str = "256m") -> Iterator[None]:
    java = use_java()
    env = {
        **os.environ,
        **inventory.mark(),
        "SPARK_HOME": str(HOME),
        "JAVA_HOME": str(java.home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": memory,  # also of a Connect server, whatever --driver-memory says
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_DIRS": str(log.parent / "scratch"),
    }
    with log.open("wb") as out:
        command = [HOME / "bin" / "spark-class", *words]
        process = subprocess.Popen(command, stdout=out, stderr=out, env=env, cwd=log.parent, start_new_session=True)
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _awaited(log: Path, pattern: str) -> str:
    """What a program says when it is ready."""
    until = time.monotonic() + _LONGEST_START_S
    while time.monotonic() < until:
        text = log.read_text(encoding="utf-8", errors="replace")
        if match := re.search(pattern, text):
            return match.group(1)
        time.sleep(0.2)
    raise TimeoutError(f"{log}: never said {pattern!r}:\n{text[-2000:]}")
