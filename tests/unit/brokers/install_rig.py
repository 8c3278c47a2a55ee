"""A broker that comes from npm, an npm that is a script of ours, and an install of it in a process of its own."""

import os
import subprocess
import sys
import time
from pathlib import Path

from brokerlab.brokers.base import Found, Missing
from brokerlab.brokers.cache import installed
from brokerlab.brokers.source import Npm

WORKS = "mkdir -p node_modules/toy && echo 1 >node_modules/toy/index.js && echo '{}' >package-lock.json"
HANGS = f"{WORKS}\necho begun >&2\nsleep 60\n"
FAILS = "mkdir node_modules\necho no such package: toy >&2\nexit 3"


class Toy:
    name = "toy"

    def __init__(self, version="1.0.0", *, says=None):
        self.source = Npm({"toy": version})
        self._says = says or version

    def find(self):
        return Missing("not here", hint="") if installed(self.name) is None else Found("toy", self._says)


class Heard:
    """Keeps what it is told."""

    def __init__(self):
        self.steps = []

    def step(self, doing):
        self.steps.append(doing)

    def line(self, text):
        pass


class Loud:
    """Prints what it is told."""

    def step(self, doing):
        print(doing, flush=True)

    def line(self, text):
        pass


INSTALLS = """
import signal
from install_rig import Loud, Toy
from brokerlab.brokers.install.installer import install
signal.signal(signal.SIGINT, signal.default_int_handler)
outcome = install(Toy(), Loud())
print("new" if outcome.is_new else "there already")
"""


def install_elsewhere() -> "subprocess.Popen[str]":
    """An install in a process of its own, with the environment of this one."""
    return subprocess.Popen(
        [sys.executable, "-c", INSTALLS],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parent)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_for(condition, what):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.02)
