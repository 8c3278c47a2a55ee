"""Machine, versions and commands, as the manifests of the runs state them."""

import shlex
from collections.abc import Iterable

from brokerlab.record.manifest import Json
from brokerlab.report.numbers import NOT_KNOWN, brief, significant
from brokerlab.report.results import Results
from brokerlab.report.table import Entry, Table, text


def machine(results: Results) -> list[tuple[str, str]]:
    """(label, value); several values where the runs were made on several machines."""
    machines = [manifest["machine"] for manifest in results.manifests.values() if "machine" in manifest]
    versions = [manifest["versions"] for manifest in results.manifests.values() if "versions" in manifest]
    facts = [
        ("Host", _distinct(m.get("host") for m in machines)),
        ("Processor", _distinct(m.get("cpu_model") for m in machines)),
        ("Cores", _distinct(m.get("cores") for m in machines)),
        ("Memory", _distinct(_gibibytes(m.get("memory_bytes")) for m in machines)),
        ("Kernel", _distinct(m.get("kernel") for m in machines)),
        ("Congestion control of TCP", _distinct(m.get("congestion_control") for m in machines)),
        ("Python", _distinct(m.get("python") for m in machines)),
        ("Energy", _distinct(m.get("energy") for m in machines)),
        ("Load before the runs", _load(machines)),
    ]
    names = list(dict.fromkeys(name for version in versions for name in version))
    return facts + [(name, _distinct(version.get(name) for version in versions)) for name in names]


def _distinct(values: Iterable[object]) -> str:
    found = list(dict.fromkeys(str(value) for value in values if value is not None))
    return "; ".join(found) or NOT_KNOWN


def _gibibytes(memory_bytes: int | None) -> str | None:
    return None if memory_bytes is None else f"{brief(round(memory_bytes / 2**30, 1))} GiB"


def _load(machines: list[Json]) -> str:
    """The host's one-minute load average before the quietest and the busiest run."""
    loads = [_first(m["load_before"]) for m in machines if m.get("load_before") is not None]
    if not loads:
        return NOT_KNOWN
    return f"{significant(min(loads))} to {significant(max(loads))} (1-minute average)"


def _first(load: object) -> float:
    return float(load[0]) if isinstance(load, list | tuple) else float(str(load))


def brokers(results: Results) -> Table:
    """One row per broker: the command of its first run; ports and folders differ from run to run."""
    columns = (text("Broker"), text("Driver"), text("Version"), text("Preset"), text("Command of its first run"))
    by_order = sorted(results.manifests.values(), key=lambda manifest: manifest.get("run", {}).get("order", 0))
    first: dict[str, Json] = {}
    for manifest in by_order:
        if "broker" in manifest:
            first.setdefault(manifest["broker"]["name"], manifest["broker"])
    rows = tuple(_broker(first[name]) for name in sorted(first))
    return Table(columns, (rows,) if rows else ())


def _broker(broker: Json) -> tuple[Entry, ...]:
    command = shlex.join(str(part) for part in broker.get("command", []))
    names = ("name", "driver", "version", "preset")
    return (*(Entry(str(broker.get(name, NOT_KNOWN))) for name in names), Entry(command, mark="code"))


def reproduce(results: Results) -> list[str]:
    """The commands that make the runs, the tables and this page again."""
    out = f"results/{results.study.name}"
    return [
        f"brokerlab run study.yaml --out {shlex.quote(out)}",
        f"brokerlab analyze {shlex.quote(out)}",
        f"brokerlab report {shlex.quote(out)}",
    ]
