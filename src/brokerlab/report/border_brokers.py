"""001's Tables I and II: what its brokers can do and where they came from, as printed and as it is here.

A cell of ours that differs from the printed one is marked: `warn` where the paper has more, `good` where ours has.
"""

from collections.abc import Iterable, Sequence

from brokerlab.published.library import Row as Printed
from brokerlab.published.library import published
from brokerlab.published.values import drivers_of
from brokerlab.record.manifest import Json
from brokerlab.report import border_probes
from brokerlab.report.drivers import KnownDriver
from brokerlab.report.numbers import NOT_KNOWN, listed, plural
from brokerlab.report.results import Results
from brokerlab.report.table import Entry, Table, text

NO_DRIVER = "no driver"
NOT_AN_IMAGE = "not an image here"
_UNKNOWN = Entry(NOT_KNOWN, mark="quiet")
_NOT_TRIED = "not tried"
Drivers = Sequence[KnownDriver]


def is_border(results: Results) -> bool:
    """Whether the study stands beside paper 001."""
    return any(row["source"].startswith("001/") for row in results.published)


def features(results: Results, drivers: Drivers) -> Table:
    """001's Table I, and below it the brokers of this study that it does not have; none without drivers."""
    columns = (
        text("Broker", "purpose, printed"), text("Driver", "licence"), text("Cluster", "printed"), text("here"),
        text("Bridge", "printed"), text("here"), text("Language", "printed"), text("MQTT", "kept here"),
        text("Probed", "what crosses between nodes"), text("In this study"),
    )  # fmt: skip
    if not drivers or not is_border(results):
        return Table(columns, ())
    printed = published("001/table1").rows
    blocks = (
        tuple(_feature_row(row, _named(drivers, drivers_of(row["broker"])), results) for row in printed),
        tuple(_feature_row(None, [first], results) for first in _others(results, drivers, printed)),
    )
    return Table(columns, tuple(block for block in blocks if block))


def probe_command(results: Results, drivers: Drivers) -> str | None:
    """What probes the brokers of Table I that no probe was kept of; None where there is none."""
    if not drivers or not is_border(results):
        return None
    printed = published("001/table1").rows
    own = [each for row in printed for each in _named(drivers, drivers_of(row["broker"]))]
    names = border_probes.without_probe([*own, *_others(results, drivers, printed)], results.probes)
    return f"brokerlab brokers probe {' '.join(names)} --nodes 3 --keep DIR" if names else None


def images(results: Results, drivers: Drivers) -> Table:
    """001's Table II, and below it the brokers of this study that it does not have; none without drivers."""
    columns = (
        text("Broker"), text("Parent image", "printed"), text("OS and architecture", "printed"),
        text("Compressed size", "printed"), text("Size", "here"), text("Version", "of this study"),
        text("Comes from", "here"),
    )  # fmt: skip
    if not drivers or not is_border(results):
        return Table(columns, ())
    printed = published("001/table2").rows
    blocks = (
        tuple(_image_row(row, _named(drivers, drivers_of(row["broker"])), results) for row in printed),
        tuple(_image_row(None, [first], results) for first in _others(results, drivers, printed)),
    )
    return Table(columns, tuple(block for block in blocks if block))


def _named(drivers: Drivers, brokers: Iterable[str]) -> list[KnownDriver]:
    """All versions of these, in this order."""
    return [driver for broker in brokers for driver in drivers if driver.broker == broker]


def _others(results: Results, drivers: Drivers, printed: Sequence[Printed]) -> list[KnownDriver]:
    """Drivers of this study that stand for no printed broker, each broker once."""
    shown = {driver for row in printed for driver in drivers_of(row["broker"])}
    used = {broker["driver"] for broker in _measured(results)}
    first = {driver.broker: driver for driver in reversed(drivers) if driver.name in used}
    return sorted((each for name, each in first.items() if name not in shown), key=lambda each: each.name)


def _measured(results: Results) -> list[Json]:
    """What the manifests say of brokers that were started, one of each run, with what was proved between nodes."""
    return [
        {**manifest["broker"], "crossing": manifest.get("crossing")}
        for manifest in results.manifests.values()
        if "broker" in manifest
    ]


def _firsts(drivers: Sequence[KnownDriver]) -> list[KnownDriver]:
    """The first version of each broker."""
    return list({driver.broker: driver for driver in reversed(drivers)}.values())[::-1]


def _names(drivers: Iterable[KnownDriver]) -> str:
    return ", ".join(dict.fromkeys(driver.broker for driver in drivers))


# -- Table I ----------------------------------------------------------------------------------------------------------


def _feature_row(printed: Printed | None, own: list[KnownDriver], results: Results) -> tuple[Entry, ...]:
    name = Entry(printed["broker"], printed["purpose"]) if printed else Entry(own[0].broker, "not in the paper's table")
    cluster, bridge = _said(printed, "cluster"), _said(printed, "bridge")
    if not own:
        nothing = Entry(NO_DRIVER, mark="warn")
        language = _said(printed, "language")
        return (name, nothing, cluster, _UNKNOWN, bridge, _UNKNOWN, language, _UNKNOWN, _UNKNOWN, _UNKNOWN)
    licences = "; ".join(dict.fromkeys(driver.licence for driver in _firsts(own) if driver.licence))
    return (
        name,
        Entry(_names(own), licences),
        cluster,
        _cluster(printed, own),
        bridge,
        _bridge(printed, own),
        _language(printed, own),
        border_probes.conformance(own, results.probes) or _held(own),
        border_probes.crossing(printed, own, results.probes),
        _in_study(own, results),
    )


def _said(printed: Printed | None, column: str) -> Entry:
    if printed is None:
        return Entry("")
    return Entry(printed[column]) if printed[column] else Entry("blank", mark="quiet")


def _difference(printed: Printed | None, column: str, *, has: bool) -> str:
    if printed is None or bool(printed[column]) == has:
        return ""
    return "good" if has else "warn"


def _cluster(printed: Printed | None, own: list[KnownDriver]) -> Entry:
    able, unable = [each for each in own if each.has_clusters], [each for each in own if not each.has_clusters]
    mark = _difference(printed, "cluster", has=bool(able))
    if not able:
        return Entry("no", mark=mark)
    below = [_NOT_TRIED] if not any(each.is_tried for each in able) else []
    below += [f"not {_names(unable)}"] if unable else []
    return Entry("by image" if all(each.is_image for each in able) else "yes", "; ".join(below), mark)


def _bridge(printed: Printed | None, own: list[KnownDriver]) -> Entry:
    """Any broker is bridged by a program of brokerlab's; one that has bridges of its own is told by them."""
    below = "" if any(each.is_tried for each in own) else _NOT_TRIED
    if any(each.has_bridges for each in own):
        return Entry("its own, or brokerlab’s", below)
    is_printed = bool(printed and printed["bridge"])
    more = ["its own is not driven"] if is_printed else []
    mark = "warn" if is_printed else _difference(printed, "bridge", has=True)
    return Entry("brokerlab’s", "; ".join([*more, *([below] if below else [])]), mark)


def _language(printed: Printed | None, own: list[KnownDriver]) -> Entry:
    """As printed, and below it ours where it is another."""
    languages = list(dict.fromkeys(each.language for each in own if each.language))
    if printed is None:
        return Entry("", f"here {', '.join(languages)}" if languages else "")
    is_other = bool(languages) and printed["language"].lower() not in [each.lower() for each in languages]
    return Entry(printed["language"], f"here {', '.join(languages)}" if is_other else "", "warn" if is_other else "")


def _held(own: list[KnownDriver]) -> Entry:
    """What the contract suite found of the first that was tried; it is what keeps `departs` true."""
    tried = next((each for each in own if each.is_tried), None)
    if tried is None:
        return Entry(_NOT_TRIED, mark="quiet")
    named = tried.name if tried.name != own[0].name else ""
    if not tried.departs:
        return Entry("kept", named)
    return Entry(f"not in {plural(len(tried.departs), 'point')}", named, "warn")


def _in_study(own: list[KnownDriver], results: Results) -> Entry:
    names = {each.name for each in own}
    runs = [broker for broker in _measured(results) if broker["driver"] in names]
    if not runs:
        return _UNKNOWN
    sizes = sorted({(str(run.get("join", "none")), len(run.get("nodes", [None]))) for run in runs})
    how = ", ".join("one node" if nodes == 1 else f"{join} of {nodes}" for join, nodes in sizes)
    crossed = [run["crossing"] for run in runs if run["crossing"]]
    if not crossed:
        return Entry(how)
    qos = listed([str(level) for level in sorted({level for each in crossed for level in each["qos"]})])
    lowered = sorted({(each["published_qos"], each["delivered_qos"]) for run in crossed for each in run["lowered"]})
    less = [f"QoS {asked} comes as {got}" for asked, got in lowered]
    proved = f"every pair proved at QoS {qos} in {len(crossed)} of {plural(len(runs), 'run')}"
    return Entry(how, "; ".join([proved, *less]), "warn" if less else "")


# -- Table II ---------------------------------------------------------------------------------------------------------


def _image_row(printed: Printed | None, own: list[KnownDriver], results: Results) -> tuple[Entry, ...]:
    versions = dict.fromkeys(
        f"{broker['driver']} {broker.get('version', '')}".strip()
        for broker in _measured(results)
        if broker["driver"] in {each.name for each in own}
    )
    first = _firsts(own)
    sources = [f"{each.broker}: {each.comes_from}" if len(first) > 1 else each.comes_from for each in first]
    return (
        Entry(printed["broker"] if printed else own[0].broker, "" if printed else "not in the paper's table"),
        *(
            (Entry(printed["parent_image"]), Entry(printed["os_arch"]), Entry(f"{printed['value']} {printed['unit']}"))
            if printed
            else (Entry(""), Entry(""), Entry(""))
        ),
        Entry(NOT_AN_IMAGE) if own and not own[0].is_image else Entry("not known", mark="quiet"),
        Entry(", ".join(versions)) if versions else Entry("not in this study", mark="quiet"),
        Entry(sources[0] if sources else NO_DRIVER, "; ".join(sources[1:])),
    )
