"""001's Table III: its parameters as printed, and those of this study, from the manifests of its runs."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from brokerlab.published.library import Row as Printed
from brokerlab.published.library import published
from brokerlab.record.manifest import Json
from brokerlab.report.border_brokers import is_border
from brokerlab.report.numbers import NOT_KNOWN, brief
from brokerlab.report.results import Results
from brokerlab.report.table import Entry, Table, text
from brokerlab.study.quantity import bytes_text

_GIB, _GB = 2**30, 10**9
_TITLES = {  # as printed
    "number_of_brokers": "Number of brokers",
    "rtt_router_router": "RTT delay router-router link",
    "rtt_switch_router": "RTT delay switch-router link",
    "rtt_broker_switch": "RTT delay broker-switch link",
    "broker_ram_upper_limit": "Broker RAM upper limit",
    "cpus_per_broker": "Number of CPU per broker",
    "published_messages": "Number of published messages",
    "subscribers": "Number of subscribers",
    "publishers": "Number of publishers",
    "broker_port": "MQTT broker port",
    "publish_rate": "Message publishing rate",
    "topic": "Topics name",
    "message_size": "Message size",
    "repetitions": "Number of simulations",
    "qos": "Quality of Service (QoS)",
}
_SHOWN_UNITS = ("ms", "GB", "msg/s", "bytes")  # of the others the parameter says what they are
Value = float | str


def _link_rtt(name: str) -> Callable[[Json], Value | None]:
    def rtt_ms(manifest: Json) -> Value | None:
        link = manifest.get("network", {}).get("topology", {}).get(name)
        return None if link is None else float(link["there"]["delay_ms"] + link["back"]["delay_ms"])

    return rtt_ms


def _workload(*keys: str) -> Callable[[Json], Value | None]:
    def value(manifest: Json) -> Value | None:
        found = manifest.get("workload", {})
        for key in keys:
            found = found.get(key) if isinstance(found, dict) else None
        return found if isinstance(found, str) or found is None else float(found)

    return value


def _limit(name: str) -> Callable[[Json], Value | None]:
    def value(manifest: Json) -> Value | None:
        if "broker" not in manifest:
            return None  # never started
        asked = manifest.get("limits", {}).get("asked", {}).get(name)
        return "none" if asked is None else float(asked)

    return value


def _nodes(manifest: Json) -> Value | None:
    return float(len(manifest["broker"].get("nodes", [None]))) if "broker" in manifest else None


def _port(manifest: Json) -> Value | None:
    address = str(manifest.get("broker", {}).get("address", ""))
    return float(address.rpartition(":")[2]) if address.rpartition(":")[2].isdecimal() else None


_OF_MANIFEST: Mapping[str, Callable[[Json], Value | None]] = {
    "number_of_brokers": _nodes,
    "rtt_router_router": _link_rtt("between"),
    "rtt_switch_router": _link_rtt("router_switch"),
    "rtt_broker_switch": _link_rtt("switch_broker"),
    "broker_ram_upper_limit": _limit("memory_bytes"),
    "cpus_per_broker": _limit("cpus"),
    "subscribers": _workload("subscribers"),
    "publishers": _workload("publishers"),
    "broker_port": _port,
    "publish_rate": _workload("schedule", "rate_per_s"),
    "topic": _workload("topics", "publish"),
    "message_size": _workload("payload_bytes"),
    "qos": _workload("qos"),
}


def parameters(results: Results) -> Table:
    """One row per printed parameter; a run that was planned and never made says nothing of it."""
    columns = (text("Parameter"), text("Printed"), text("This study"), text("Beside it"), text("Note"))
    if not is_border(results):
        return Table(columns, ())
    printed: dict[str, list[Printed]] = {}
    for row in published("001/table3").rows:
        printed.setdefault(row["parameter"], []).append(row)
    rows = tuple(_row(name, rows, results) for name, rows in printed.items())
    return Table(columns, (rows,))


def _row(name: str, printed: Sequence[Printed], results: Results) -> tuple[Entry, ...]:
    theirs = [value for row in printed for value in _printed_values(name, row["value"])]
    ours = _ours(name, results)
    unit = printed[0]["unit"] if printed[0]["unit"] in _SHOWN_UNITS else ""
    answer, mark = _beside(name, theirs, ours)
    notes = dict.fromkeys(row["note"] for row in printed if row["note"] and not row["note"].startswith("level "))
    return (
        Entry(_TITLES[name]),
        Entry(_listed(theirs, unit)),
        Entry(_own_text(name, ours, unit)),
        Entry(answer, mark=mark),
        Entry("; ".join(notes)),
    )


def _printed_values(name: str, value: str) -> list[Value]:
    return [value] if name == "topic" else [float(part) for part in value.split(",")]


def _ours(name: str, results: Results) -> list[Value]:
    """Every value that a run had, each once, in order of size."""
    if name == "published_messages":
        found: Iterable[Value | None] = [_counted(row["published"]) for row in _sent(results)]
    elif name == "repetitions":
        cells = [row["cell"] for row in results.runs]
        found = [float(cells.count(cell)) for cell in set(cells)]
    else:
        found = [_OF_MANIFEST[name](manifest) for manifest in results.manifests.values()]
    known = {value for value in found if value is not None}
    return sorted(known, key=lambda value: (isinstance(value, str), value if isinstance(value, float) else 0.0))


def _sent(results: Results) -> list[Mapping[str, object]]:
    return [row for row in results.throughput if row["window"] == "send"]


def _counted(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _beside(name: str, theirs: Sequence[Value], ours: Sequence[Value]) -> tuple[str, str]:
    """What tells them apart, and its mark."""
    if not ours:
        return NOT_KNOWN, "quiet"
    if name == "broker_port":
        return ("as printed", "") if list(ours) == list(theirs) else ("differs: a free port each time", "warn")
    if name == "topic":
        return _topics(str(theirs[0]), [str(value) for value in ours])
    same = [value for value in theirs if any(_is_same(name, value, own) for own in ours)]
    if len(same) < len(theirs):
        return ("differs" if not same else "differs: not all of them"), "warn"
    return ("as printed", "") if len(ours) == len(theirs) else ("as printed, among others", "good")


def _is_same(name: str, printed: Value, own: Value) -> bool:
    """Docker reads 2 GB as 2 GiB."""
    if name == "broker_ram_upper_limit" and isinstance(printed, float):
        return own in (printed * _GIB, printed * _GB)
    return printed == own


def _topics(printed: str, ours: Sequence[str]) -> tuple[str, str]:
    if list(ours) == [printed]:
        return "as printed", ""
    has_same_start = all(own.startswith(printed) for own in ours)
    return ("differs: a level for each publisher after it" if has_same_start else "differs"), "warn"


def _own_text(name: str, values: Sequence[Value], unit: str) -> str:
    if not values:
        return NOT_KNOWN
    if name == "broker_ram_upper_limit":
        return ", ".join(value if isinstance(value, str) else bytes_text(int(value)) for value in values)
    if name in ("broker_port", "published_messages") and len(values) > 3:
        return f"{values[0]:.0f} to {values[-1]:.0f}"
    return _listed(values, unit)


def _listed(values: Sequence[Value], unit: str) -> str:
    """`5, 50 ms`; a port is no number to be grouped."""
    texts = [value if isinstance(value, str) else brief(value).replace(",", "") for value in values]
    is_word = all(isinstance(value, str) for value in values)
    return ", ".join(texts) + ("" if is_word or not unit else f" {unit}")
