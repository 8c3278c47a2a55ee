"""What brokers of this machine were seen to do, for the features that need no opinion."""

from collections.abc import Iterable, Mapping

from brokerlab.brokers.base import Broker, Found
from brokerlab.brokers.registry import DRIVERS
from brokerlab.lab.probe.checks import chosen
from brokerlab.lab.probe.runner import probe
from brokerlab.lab.probe.target import opened
from brokerlab.lab.probe.values import Result
from brokerlab.quality.measured import Facts

_LARGEST_BYTES = 1 << 20  # no check of the groups that are asked looks for more


def facts_of(brokers: Iterable[str], *, by: str) -> Mapping[str, Facts]:
    """The facts of those that are installed here, by what the contract suite proves of them, or by the probe now."""
    if by == "nothing":
        return {}
    here = {name: DRIVERS[name] for name in sorted(set(brokers)) if name in DRIVERS}
    found = {name: (driver, at) for name, driver in here.items() if isinstance(at := driver.find(), Found)}
    return {
        name: _proved(driver, at) if by == "drivers" else _probed(driver, at) for name, (driver, at) in found.items()
    }


def _proved(driver: Broker, found: Found) -> Facts:
    abilities = driver.abilities
    return Facts(
        source=f"driver of {driver.name} {found.version}, which the contract suite holds to its word",
        qos=tuple(int(qos) for qos in abilities.qos),
        protocols=abilities.protocols,
        has_tls=any(transport.is_encrypted for transport in abilities.transports),
        joins_others=abilities.has_clusters or abilities.has_bridges,
        departures=len(abilities.departs),
    )


def _probed(driver: Broker, found: Found) -> Facts:
    """QoS levels whose flow was kept with some version, and the versions that were spoken."""
    with opened(driver.name, largest_bytes=_LARGEST_BYTES) as target:
        findings = probe(target.place, chosen(["connect", "qos"]), renew=target.renew)
    kept = {finding.check.id for finding in findings if finding.result is Result.KEPT}
    flows = {0: {"qos.0"}, 1: {"qos.1-in", "qos.1-out"}, 2: {"qos.2-in", "qos.2-out"}}
    spoken = [each.protocol for each in findings if each.check.id == "connect.accepted" and each.result is Result.KEPT]
    proved = _proved(driver, found)
    return Facts(
        source=f"probe of {driver.name} {found.version}",
        qos=tuple(level for level, needed in flows.items() if needed <= kept),
        protocols=tuple(spoken),
        has_tls=proved.has_tls,
        joins_others=proved.joins_others,
        departures=proved.departures,
    )
