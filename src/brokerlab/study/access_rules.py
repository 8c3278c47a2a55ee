"""The rules of getting in that concern two places of a study file at once, or the file and the drivers."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from brokerlab.errors import UserError
from brokerlab.study.access import read_certificates, read_transport, users_in
from brokerlab.study.document import Document, KeyPath
from brokerlab.study.factor import OFF, ON, read_switch
from brokerlab.study.factors import FACTORS
from brokerlab.study.facts import DriverFacts
from brokerlab.study.lookup import WORKLOAD, read_or_none, values_of
from brokerlab.study.nearest import listed, nearest
from brokerlab.study.population import client_count
from brokerlab.study.role_rules import roles_of
from brokerlab.study.table import FilterTable
from brokerlab.study.values import Certificates, ClientLife, Probe, Workload

_CREDENTIALS: KeyPath = (*WORKLOAD, "credentials")


def check_access(document: Document, drivers: Mapping[str, DriverFacts], used: Iterable[tuple[str, str]]) -> None:
    """Adds the problems that it finds to the document's; `used` are names and drivers of the study's brokers."""
    _check_certificates(document)
    _check_credentials(document)
    _check_users(document)
    for name, driver in used:
        if driver in drivers:
            _check_driver(document, f"broker {name} (driver {driver})", drivers[driver])


def _check_certificates(document: Document) -> None:
    """Certificates are shown inside TLS: with another transport a cell would be measured under a wrong name."""
    asked = [path for path, written in values_of(document, "certificates") if _is_asked(written)]
    if not asked:
        return
    transports = [read_or_none(read_transport, written) for _, written in values_of(document, "transport")]
    for transport in transports or [Workload().transport]:
        if transport is not None and not transport.is_encrypted:
            document.add(asked[0], f"needs the transports tls or wss alone, and the study's is {transport}")
            return


def _is_asked(written: object) -> bool:
    return read_or_none(read_certificates, written) not in (None, Certificates.NONE)


def _check_credentials(document: Document) -> None:
    keys = document.mapping(*_CREDENTIALS)
    if "file" in keys:
        for key in ("user", "password"):
            if key in keys:
                document.add((*_CREDENTIALS, key), "stands in the lines of the file; leave this key out", of_key=True)
        _check_file(document, keys["file"])
    elif isinstance(document.get(*_CREDENTIALS), dict):
        for key in ("user", "password"):
            if key not in keys:
                document.add((*_CREDENTIALS, key), "the key is missing; or give a file instead of both", of_key=True)


def _check_users(document: Document) -> None:
    """What is asked of clients that have a name: without one a cell would be measured under a wrong name."""
    has_credentials = isinstance(document.get(*_CREDENTIALS), dict)
    users = values_of(document, "users")
    for path, written in users:
        if read_or_none(read_switch, written) == ON and not has_credentials:
            document.add(path, "needs scenario.workload.credentials")
    is_sure = has_credentials and all(read_or_none(read_switch, written) == ON for _, written in users)
    for path, written in values_of(document, "permissions"):
        if read_or_none(read_switch, written) == ON and not is_sure:
            document.add(path, "needs scenario.workload.credentials in every cell: a list of topics is for known users")


def _check_file(document: Document, written: object) -> None:
    """One line for each client of the largest cell."""
    if not isinstance(written, str):
        return
    default = Workload()
    largest = Workload(
        publishers=_most(document, "publishers", default.publishers),
        subscribers=_most(document, "subscribers", default.subscribers),
        clients=ClientLife(idle=_most(document, "idle", 0)),
        probe=None if document.get(*WORKLOAD, "probe") is None else Probe(),
        subscriptions=FilterTable(
            _most(document, "subscriptions", 0),
            clients=_most(document, "filter_clients", default.subscriptions.clients),
        ),
    )
    needed = max((client_count(replace(largest, role=role)) for role in roles_of(document)), default=0)
    try:
        lines = sum(1 for _ in users_in(Path(document.file).parent / written))
    except UserError:
        return  # the model names it
    if lines < needed:
        rule = f"has {lines} users, but the study has {needed} clients: one line for each is needed"
        document.add((*_CREDENTIALS, "file"), rule)


def _most(document: Document, factor: str, default: int) -> int:
    """The largest number that the factor has in any cell."""
    counts = [read_or_none(FACTORS[factor].read, count) for _, count in values_of(document, factor)]
    return max((int(count) for count in counts if count is not None), default=default)


def _check_driver(document: Document, broker: str, facts: DriverFacts) -> None:
    for path, written in values_of(document, "transport"):
        transport = read_or_none(read_transport, written)
        if transport is not None and transport not in facts.transports:
            rule = f"{broker} has no transport {transport}; it has {listed(facts.transports)}"
            document.add(path, rule, nearest_valid=nearest(str(transport), facts.transports))
    if _CREDENTIALS in document.places and not facts.has_credentials:
        document.add(_CREDENTIALS, f"{broker} has no user names", of_key=True)
    for path, written in values_of(document, "permissions"):
        if read_or_none(read_switch, written) == ON and not facts.has_permissions:
            document.add(path, f"{broker} has no list of topics for its users", nearest_valid=OFF)
    for path, written in values_of(document, "certificates"):
        if _is_asked(written) and not facts.has_client_certificates:
            document.add(
                path, f"{broker} does not ask its clients for certificates", nearest_valid=str(Certificates.NONE)
            )
