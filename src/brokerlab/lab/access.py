"""How the clients of one run get into its broker: certificates and user names are made for the run and go with it.

Keys and password files lie in a folder that only its owner can enter, outside of the run directory, which keeps
none of them; it is removed at the end of the run.
"""

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from brokerlab import inventory
from brokerlab.brokers.base import OPEN, Security
from brokerlab.lab.clients import Clients
from brokerlab.load.client import Login
from brokerlab.load.spec import Client, Entrance, WorkerSpec
from brokerlab.load.topics import PROOF_PREFIX, own_filter, own_topics
from brokerlab.study.access import users_of
from brokerlab.study.topics import CONTROL_TOPIC, PROBE_PREFIX
from brokerlab.study.values import Certificates, Workload

PREFIX = "brokerlab-keys-"
_OWN = tuple(f"{topic.split('/')[0]}/#" for topic in (PROOF_PREFIX, PROBE_PREFIX, CONTROL_TOPIC))
_COUNTERS = "$SYS/#"


@dataclass(frozen=True, slots=True)
class Access:
    """What the broker, the lab's own clients and the workers are told."""

    security: Security = OPEN
    login: Login = field(default_factory=Login)  # of the lab's own clients
    clients: dict[str, Client] = field(default_factory=dict, repr=False)  # by identifier: with what they get in by
    facts: dict[str, object] = field(default_factory=dict)  # for the manifest: nothing secret

    def admitted(self, specs: Sequence[WorkerSpec]) -> tuple[WorkerSpec, ...]:
        """The workers with the way in, and each of their clients with its name and certificate."""
        return tuple(
            replace(spec, entrance=self.login.entrance, clients=tuple(map(self._admitted, spec.clients)))
            for spec in specs
        )

    def speaking(self, protocol: str) -> "Access":
        """The same, with the lab's own clients at this version: a broker may have no port for another one."""
        return replace(self, login=replace(self.login, protocol=protocol))

    def _admitted(self, client: Client) -> Client:
        """Devices and probes, which the study counts as no clients, come in as the first client does."""
        known = self.clients.get(client.name, next(iter(self.clients.values()), client))
        if known.user is None:  # then all say what the lab's own clients say
            known = replace(known, user=self.login.user, password=self.login.password)
        return replace(client, user=known.user, password=known.password, certificate=known.certificate)


@contextmanager
def open_access(
    workload: Workload, clients: Clients, *, host: str, beside: Sequence[Client] = (), others: Sequence[str] = ()
) -> Iterator[Access]:
    """Everything that a run needs for its transport, certificates and credentials, for as long as it lasts.

    The broker's certificate is for its `host` and `others`, those of its other nodes.
    """
    everyone = (*clients.connecting(), *beside)
    names = users_of(workload.credentials, len(everyone)) if workload.credentials else []
    facts: dict[str, object] = {
        "transport": str(workload.transport),
        "certificates": str(workload.certificates),
        "users": len(set(names)),
    }
    with inventory.temporary_folder(PREFIX) as private:
        security = Security(transport=workload.transport, folder=private, protocol=workload.protocol)
        access = Access(security, facts=facts)
        access = _encrypted(access, workload, everyone, (host, *others))
        yield _permitted(_named(access, everyone, names), workload, everyone)


def _encrypted(access: Access, workload: Workload, everyone: Sequence[Client], hosts: Sequence[str]) -> Access:
    """With certificates, where the transport has them."""
    entrance, folder = Entrance(workload.transport), access.security.folder
    if not workload.transport.is_encrypted or folder is None:
        return replace(access, login=Login(entrance))
    # Loaded where it is needed: most runs are not encrypted, and start faster without it.
    from brokerlab.lab.certificates import Authority, keep  # noqa: PLC0415

    authority = Authority()
    certificate, key = authority.broker(*hosts)
    trusted = keep(folder, "authority.pem", authority.pem)
    security = replace(
        access.security,
        certificate=keep(folder, "broker.pem", certificate),
        key=keep(folder, "broker.key", key),
        authority=None if workload.certificates is Certificates.NONE else trusted,
    )
    login = Login(replace(entrance, authority=trusted))
    if workload.certificates is Certificates.NONE:
        return replace(access, security=security, login=login)
    shared = keep(folder, "clients.pem", *authority.client("brokerlab"))
    files = {client.name: shared for client in everyone}
    if workload.certificates is Certificates.EACH:
        files = {name: keep(folder, f"client-{name}.pem", *authority.client(name)) for name in files}
    return replace(
        access,
        security=security,
        login=replace(login, certificate=shared),
        clients={client.name: replace(client, certificate=files[client.name]) for client in everyone},
    )


def _named(access: Access, everyone: Sequence[Client], names: Sequence[tuple[str, str]]) -> Access:
    """With user names and passwords, and one of the lab's own."""
    if not names:
        return access
    own = (f"brokerlab-{secrets.token_hex(4)}", secrets.token_urlsafe(24))
    users = dict([*names, own])
    clients = {
        client.name: replace(access.clients.get(client.name, client), user=user, password=password.encode())
        for client, (user, password) in zip(everyone, names, strict=True)
    }
    return replace(
        access,
        security=replace(access.security, users=users),
        login=replace(access.login, user=own[0], password=own[1].encode()),
        clients=clients,
    )


def _permitted(access: Access, workload: Workload, everyone: Sequence[Client]) -> Access:
    """With a list of topics, where one is asked for: all below the first levels that our clients use, and nothing else.

    A filter that begins with a wildcard needs everything.
    """
    if not workload.permissions:
        return access
    texts = {text for each in everyone for text in (each.topic, each.hears, each.will, *each.filters)}
    texts |= {text for each in everyone for text in own_topics(each, workload)} | {workload.topics.reply}
    firsts = {own_filter(text).split("/")[0] for text in texts if text}
    own = tuple(sorted({*_OWN, *("#" if first in ("+", "#") else f"{first}/#" for first in firsts)}))
    facts = access.facts | {"permissions": list(own)}
    security = replace(access.security, readable=(*own, _COUNTERS), writable=own)
    return replace(access, security=security, facts=facts)
