"""The rules that concern two places of a study file at once, or the file and the drivers.

They look at the document as it stands, also where model.py has refused other parts of it, so that
all problems come out together; what has the wrong shape is passed over here, because the model names it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from brokerlab.study import names, quantity
from brokerlab.study.access_rules import check_access
from brokerlab.study.arrivals import ALL_KEYS, KEYS, NEEDED, owners
from brokerlab.study.document import Document, KeyPath
from brokerlab.study.due_rules import check_load_is_measurable
from brokerlab.study.ensemble_rules import check_ensemble
from brokerlab.study.factor import read_qos
from brokerlab.study.factors import FACTORS, read_protocol, read_rate_per_s
from brokerlab.study.facts import DriverFacts
from brokerlab.study.fault_rules import check_faults
from brokerlab.study.life_rules import check_life
from brokerlab.study.limits import check_limits
from brokerlab.study.load_rules import check_load_on
from brokerlab.study.lookup import VARIABLES, WORKLOAD, arrivals_of, items_of, read_or_none, values_of
from brokerlab.study.nearest import listed
from brokerlab.study.pause_rules import check_pause
from brokerlab.study.payload_rules import check_payload
from brokerlab.study.problems import RuleError, check_name
from brokerlab.study.readers import read_needed_phase_s
from brokerlab.study.role_rules import check_roles, roles_of
from brokerlab.study.start_rules import check_start
from brokerlab.study.subscriptions_rules import check_subscriptions
from brokerlab.study.topics_rules import check_topics
from brokerlab.study.topology_rules import check_topology
from brokerlab.study.values import Arrivals, Probe, Qos, Roles, Schedule, Workload
from brokerlab.study.will_rules import check_wills

_BROKERS: KeyPath = ("system", "brokers")
_SCHEDULE: KeyPath = (*WORKLOAD, "schedule")


def check_rules(document: Document, *, drivers: Mapping[str, DriverFacts]) -> None:
    """Adds the problems that it finds to the document's."""
    _check_drivers(document, drivers)
    _check_broker_levels(document)
    _check_duplicates(document)
    _check_arrivals(document)
    _check_inflight(document)
    check_payload(document)
    check_life(document)
    _check_abilities(document, drivers)
    check_access(document, drivers, list(_used_brokers(document)))
    _check_rank(document)
    check_topics(document)
    check_load_is_measurable(document)
    _check_search(document)
    check_roles(document)
    check_subscriptions(document)
    check_start(document)
    check_load_on(document)
    check_limits(document)
    check_ensemble(document, drivers, list(_used_brokers(document)))
    check_wills(document, drivers, list(_used_brokers(document)))
    check_pause(document)
    check_topology(document, list(_used_brokers(document)))
    check_faults(document)
    _check_settings_have_effect(document)


def _check_drivers(document: Document, drivers: Mapping[str, DriverFacts]) -> None:
    for name, entry in document.mapping(*_BROKERS).items():
        path = (*_BROKERS, name)
        driver = entry.get("driver") if isinstance(entry, dict) else None
        if not isinstance(driver, str) or not driver.strip():
            continue
        if driver in drivers:
            _check_choice(document, path, entry, drivers[driver])
        else:
            _add_unknown(document, (*path, "driver"), "driver", known=sorted(drivers), later=names.DRIVERS_LATER)


def _check_choice(document: Document, path: KeyPath, entry: dict[str, Any], facts: DriverFacts) -> None:
    driver, preset, options = entry["driver"], entry.get("preset"), entry.get("options")
    if isinstance(preset, str) and preset not in facts.presets:
        _add_unknown(document, (*path, "preset"), f"preset of driver {driver}", known=facts.presets)
    for option, value in options.items() if isinstance(options, dict) else ():
        here = (*path, "options", option)
        if option not in facts.options:
            _add_unknown(document, here, f"option of driver {driver}", known=facts.options, is_key=True)
        elif facts.check_option is not None:
            _check_option(document, here, value, facts.check_option)


def _check_option(document: Document, path: KeyPath, value: Any, check: Callable[[str, object], None]) -> None:
    try:
        check(str(path[-1]), value)
    except RuleError as broken:
        document.add(path, broken.rule, nearest_valid=broken.nearest)


def _check_broker_levels(document: Document) -> None:
    brokers = document.mapping(*_BROKERS)
    for path, name in items_of(document, (*VARIABLES, "broker")):
        if isinstance(name, str) and brokers and name not in brokers:
            _add_unknown(document, path, "broker, not in system.brokers", known=brokers)


def _check_duplicates(document: Document) -> None:
    """A level or a metric that is there twice: the same cell would be measured under two names."""
    for factor, kind in FACTORS.items():
        _check_distinct(document, (*VARIABLES, factor), kind.read)
    _check_distinct(document, ("metrics",), lambda metric: metric)
    _check_distinct(document, ("deploy", "captures"), lambda tap: tap)


def _check_distinct(document: Document, path: KeyPath, read: Callable[[object], Any]) -> None:
    seen: dict[Any, int] = {}
    for here, item in items_of(document, path):
        level = read_or_none(read, item)
        if level is None or isinstance(level, dict | list):
            continue
        if level in seen:
            first = document.written.get((*path, seen[level]), "")
            document.add(here, f'is there twice (the first is item {seen[level] + 1}, "{first}")')
        else:
            seen[level] = int(here[-1])


def _check_arrivals(document: Document) -> None:
    """Keys that the arrivals do not use would look as if they counted; those that they cannot do without must be."""
    arrivals = arrivals_of(document)
    if arrivals is None:
        return
    for key in ALL_KEYS:
        if key in KEYS[arrivals]:
            continue
        for path in ((*_SCHEDULE, key), (*VARIABLES, key)):
            if path in document.places:
                document.add(path, f"belongs to {listed(owners(key))} arrivals; these are {arrivals}", of_key=True)
    for key in KEYS[arrivals]:
        is_there = (*_SCHEDULE, key) in document.places or (*VARIABLES, key) in document.places
        if key in NEEDED and not is_there:
            document.add((*_SCHEDULE, "arrivals"), f"needs the key {key} beside it, such as {key}: {NEEDED[key]}")


def _check_inflight(document: Document) -> None:
    """At QoS 0 nothing is acknowledged, so nothing is in flight: a limit would look as if it counted.

    Where both vary, the plan has QoS 0 once, at the last level of inflight; but window arrivals are nothing but
    that limit, and would send without end.
    """
    limits = [path for path in ((*_SCHEDULE, "inflight"), (*VARIABLES, "inflight")) if path in document.places]
    if not limits:
        return
    levels = values_of(document, "qos")
    is_window = arrivals_of(document) is Arrivals.WINDOW
    is_once = (*VARIABLES, "inflight") in document.places and len(levels) > 1 and not is_window
    what = "window arrivals need" if is_window else "inflight needs"
    for path, written in levels:
        if read_or_none(read_qos, written) == Qos.AT_MOST_ONCE and not is_once:
            document.add(path, f"{what} QoS 1 or 2: at QoS 0 nothing is acknowledged")
    if not levels:
        document.add(limits[0], "needs QoS 1 or 2, and the study's is 0: nothing is acknowledged then", of_key=True)


def _check_abilities(document: Document, drivers: Mapping[str, DriverFacts]) -> None:
    """QoS levels and protocols that a broker of the study does not have.

    Where the QoS varies, the plan leaves an optional broker out of the cells that it cannot do (plan.py).
    """
    for name, driver in _used_brokers(document):
        facts = drivers.get(driver)
        if facts is None:
            continue
        for path, qos in _asked_qos(document):
            is_left_out = path[:2] == VARIABLES and document.get(*_BROKERS, name, "optional") is True
            if read_or_none(read_qos, qos) is not None and qos not in facts.qos and not is_left_out:
                known = listed(str(level) for level in facts.qos)
                document.add(path, f"broker {name} (driver {driver}) has no QoS {qos}; it has {known}")
        if document.get(*WORKLOAD, "topics", "share") is not None and not facts.has_shared_subscriptions:
            rule = f"broker {name} (driver {driver}) has no shared subscriptions"
            document.add((*WORKLOAD, "topics", "share"), rule, of_key=True)
        for path, written in values_of(document, "protocol") or [((*WORKLOAD, "protocol"), Workload().protocol)]:
            protocol = read_or_none(read_protocol, written)
            if protocol is not None and protocol not in facts.protocols:
                known = listed(facts.protocols)
                document.add(path, f"broker {name} (driver {driver}) does not speak MQTT {protocol}; it speaks {known}")


def _asked_qos(document: Document) -> Iterator[tuple[KeyPath, Any]]:
    """Every QoS that somebody publishes at: the load, devices that answer, the probe."""
    yield from values_of(document, "qos")
    if Roles.ECHO in roles_of(document):
        yield from values_of(document, "echo_qos")
    probe = (*WORKLOAD, "probe")
    if isinstance(keys := document.get(*probe), dict):
        yield ((*probe, "qos"), keys["qos"]) if "qos" in keys else (probe, int(Probe().qos))


def _check_rank(document: Document) -> None:
    rank, metrics = document.get("goals", "rank_by"), document.get("metrics")
    if rank not in names.RANKS or not isinstance(metrics, list):
        return
    needed = str(rank).partition(".")[0]
    if needed not in metrics:
        document.add(("goals", "rank_by"), f"ranks by {needed}, which `metrics` leaves out")
    if needed == "capacity" and arrivals_of(document) not in (None, Arrivals.SEARCH):
        document.add(("goals", "rank_by"), f"needs {Arrivals.SEARCH} arrivals: no other finds a capacity")


def _check_search(document: Document) -> None:
    """A search needs a range, and at least one message in the shortest of its trials."""
    if arrivals_of(document) is not Arrivals.SEARCH:
        return
    low, high = (read_or_none(read_rate_per_s, document.get(*_SCHEDULE, key)) for key in ("from", "to"))
    if low is not None and high is not None and high <= low:
        document.add((*_SCHEDULE, "to"), f"must be above from, which is {quantity.per_s_text(low)}")
    written_s = document.get(*_SCHEDULE, "trial")
    trial_s = Schedule().trial_s if written_s is None else read_or_none(read_needed_phase_s, written_s)
    if low is not None and trial_s is not None and low * trial_s < 1:
        span = quantity.seconds_text(trial_s)
        document.add((*_SCHEDULE, "from"), f"no message is due in a trial of {span}; raise one of them")


def _check_settings_have_effect(document: Document) -> None:
    """A `--set` of a workload's value whose levels the study varies would change nothing."""
    for factor, kind in FACTORS.items():
        if kind.home and factor in document.mapping(*VARIABLES) and document.is_set_by_option(*WORKLOAD, *kind.home):
            rule = f"has no effect, because scenario.variables.{factor} gives the levels; set those, or use --only"
            document.add((*WORKLOAD, *kind.home), rule)


def _used_brokers(document: Document) -> Iterator[tuple[str, str]]:
    """(name, driver) of the brokers that the study measures."""
    members = [name for _, name in items_of(document, ("system", "ensemble", "members"))]
    levels = members or [name for _, name in items_of(document, (*VARIABLES, "broker"))]
    for name, entry in document.mapping(*_BROKERS).items():
        driver = entry.get("driver") if isinstance(entry, dict) else None
        if isinstance(driver, str) and (not levels or name in levels):
            yield name, driver


def _add_unknown(
    document: Document,
    path: KeyPath,
    kind: str,
    *,
    known: Iterable[str],
    later: Iterable[str] = (),
    is_key: bool = False,
) -> None:
    """Adds that the name at the path is not known: the value there, or the key itself."""
    try:
        check_name(kind, str(path[-1]) if is_key else document.get(*path), known=known, later=later)
    except RuleError as broken:
        document.add(path, broken.rule, nearest_valid=broken.nearest, of_key=is_key)
