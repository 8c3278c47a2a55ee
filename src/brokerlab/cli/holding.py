"""`brokerlab run --hold`: waits in the first run, with network and brokers up, and says how to get in (B-08)."""

import sys
from collections.abc import Sequence

from brokerlab import inventory
from brokerlab.cli.terminal import say
from brokerlab.lab.watching import Watcher
from brokerlab.record.directory import StudyDirectory
from brokerlab.study.plan import PlannedRun

_LAST_BEFORE_CLIENTS = "connect"  # the phase that begins when everything else is up


class Holding:
    """A watcher that tells another one, and waits once."""

    def __init__(self, watcher: Watcher, results: StudyDirectory) -> None:
        self._watcher, self._results = watcher, results
        self._run: PlannedRun | None = None
        self._has_held = False

    def run_started(self, run: PlannedRun, number: int, total: int) -> None:
        self._run = run
        self._watcher.run_started(run, number, total)

    def phase_started(self, name: str, seconds: float) -> None:
        if name == _LAST_BEFORE_CLIENTS and not self._has_held and self._run is not None:
            self._has_held = True
            self._hold(self._run)
        self._watcher.phase_started(name, seconds)

    def run_ended(self, run: PlannedRun, verdict: str, reasons: Sequence[str], seconds: float) -> None:
        self._watcher.run_ended(run, verdict, reasons, seconds)

    def _hold(self, run: PlannedRun) -> None:
        for line in ways_in(self._results.run(run.id).manifest()):
            say(line)
        say("held: everything is up and no client is connected; go on with Enter, stop with Ctrl-C")
        sys.stdin.readline()


def ways_in(manifest: dict[str, object]) -> list[str]:
    """One line for each place of a run that somebody may want to look at."""
    network = manifest.get("network")
    hosts = network["hosts"] if isinstance(network, dict) else []
    groups = network["groups"] if isinstance(network, dict) else []
    held = {thing.name for thing in inventory.own_things() if thing.kind == "namespace"}
    lines = [
        f"  site {host['site']}, {host['name']} ({host['address']}): ip netns exec {host['namespace']} bash"
        for host in sorted(hosts, key=lambda host: (host["site"], host["name"]))
        if host["namespace"] in held
    ]
    lines += [f"  site {each['site']}, all of its processes: kill -STOP -- -{each['group']}" for each in groups]
    broker = manifest.get("broker")
    where = broker.get("address") if isinstance(broker, dict) else None
    return [*lines, f"  broker: {where}"] if where else lines
