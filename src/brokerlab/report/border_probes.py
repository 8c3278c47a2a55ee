"""001's Table I by what probes found: kept with the results by the run itself, or by `brokers probe --keep`.

A finding is told with the broker's version and the day. It is marked `bad` where nodes did not join though the driver
says that they do, `warn` where they did but deliver at a lower QoS, `good` where the paper has no mark there.
"""

from collections.abc import Iterable, Sequence

from brokerlab.published.library import Row as Printed
from brokerlab.record.manifest import Json
from brokerlab.record.probes import CONFORMANCE
from brokerlab.report.drivers import KnownDriver
from brokerlab.report.numbers import listed, plural
from brokerlab.report.table import Entry

NOT_PROBED = Entry("not probed", mark="quiet")
_JOINS = ("cluster", "bridge")  # the kinds of an ensemble's probe, and the columns of the printed table
_WORDS = {"unknown": "not seen"}


def crossing(printed: Printed | None, own: Sequence[KnownDriver], probes: Sequence[Json]) -> Entry:
    """What crosses between nodes of this broker, of each way to join them that was probed."""
    found = [probe for join in _JOINS if (probe := newest(probes, own, join)) is not None]
    if not found:
        return NOT_PROBED
    marks = [_mark(printed, probe) for probe in found]
    return Entry(
        " and ".join(_short(probe) for probe in found),
        "; ".join(f"{_found(probe)} ({_of(probe)})" for probe in found),
        next((mark for mark in ("bad", "warn", "good") if mark in marks), ""),
    )


def conformance(own: Sequence[KnownDriver], probes: Sequence[Json]) -> Entry | None:
    """What the probe against the specification found of this broker; None where none is kept."""
    probe = newest(probes, own, CONFORMANCE)
    if probe is None:
        return None
    counts = probe.get("counts", {})
    broken, unknown = int(counts.get("broken", 0)), int(counts.get("unknown", 0))
    declared = next((len(each.departs) for each in own if each.name == probe["driver"]), 0)
    said = [f"{counts.get('kept', 0)} checks kept", f"{unknown} unknown" if unknown else ""]
    said += [f"the driver names {plural(declared, 'point')}" if broken or declared else "", _of(probe)]
    below = "; ".join(part for part in said if part)
    return Entry(f"not in {plural(broken, 'check')}", below, "warn") if broken else Entry("kept", below)


def without_probe(own: Iterable[KnownDriver], probes: Sequence[Json]) -> list[str]:
    """The brokers that could be started and joined, and were not."""
    seen = {str(probe["driver"]).split("@", maxsplit=1)[0] for probe in probes if probe["kind"] in _JOINS}
    able = dict.fromkeys(each.broker for each in own if each.is_tried and not each.is_image)
    return [name for name in able if name not in seen]


def newest(probes: Sequence[Json], own: Sequence[KnownDriver], kind: str) -> Json | None:
    names = {each.name for each in own}
    fitting = [probe for probe in probes if probe["driver"] in names and probe["kind"] == kind]
    return max(fitting, key=lambda probe: str(probe["made_at"]), default=None)


def _mark(printed: Printed | None, probe: Json) -> str:
    if "failed" in probe:
        return "bad"
    if probe["messages"]["lowered"]:
        return "warn"
    return "good" if printed is not None and not printed[probe["kind"]] else ""


def _short(probe: Json) -> str:
    return f"{'no ' if 'failed' in probe else ''}{probe['kind']} of {probe['nodes']}"


def _found(probe: Json) -> str:
    if "failed" in probe:
        return f"not joined: {probe['failed']}"
    lowered = probe["messages"]["lowered"]
    levels = sorted({(each["published_qos"], each["delivered_qos"]) for each in lowered})
    qos = listed([str(level) for level in probe["messages"]["qos"]])
    messages = f"messages at QoS {qos}" + "".join(f", {asked} as {got}" for asked, got in levels)
    by_verdict: dict[str, list[str]] = {}
    for each in probe["properties"]:
        by_verdict.setdefault(each["seen"], []).append(each["id"])
    across = [messages, *by_verdict.pop("crosses", [])]
    rest = [f"{', '.join(names)}: {_WORDS.get(verdict, verdict)}" for verdict, names in by_verdict.items()]
    return "; ".join([f"across: {', '.join(across)}", *rest])


def _of(probe: Json) -> str:
    version = probe.get("version") or ""
    return f"{probe['driver']} {version}".strip() + f", {str(probe['made_at'])[:10]}"
