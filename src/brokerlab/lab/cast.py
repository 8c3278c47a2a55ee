"""Who plays which part in a run beside plain publishers and subscribers: devices that answer, loops, a probe. Pure.

one-way   publishers/0 ---------------> broker --> subscribers/0     at several nodes: publishers/1 and so on
echo      publishers/0 --> broker --> devices/0 --> broker --> subscribers/0
loop      loops/0 <--> broker
probe     probe/0 <--> broker               beside any of them
table     filters/0 --> broker              likewise: subscriptions that match nothing of the load
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

from brokerlab.lab.clients import Clients, others_of, worker_specs
from brokerlab.lab.crossing import Door
from brokerlab.load.spec import Client, Granted, WorkerSpec
from brokerlab.load.starting import QOS as COMMAND_QOS
from brokerlab.load.topics import own_filter
from brokerlab.study.mqtt5_values import Mqtt5
from brokerlab.study.places import Place
from brokerlab.study.plan import PlannedRun
from brokerlab.study.population import population
from brokerlab.study.topics import PROBE_PREFIX, expand, topic_matches
from brokerlab.study.values import ClientLife, Payload, Probe, Roles, Schedule, Start, Topics, Workload

DEVICES, LOOPS, PROBE, FILTERS = "devices/0", "loops/0", "probe/0", "filters/0"
PROBE_BYTES = 16  # the payload of a probe: its identity, which holds the time


@dataclass(frozen=True, slots=True)
class Cast:
    """All clients of a run by the part that they play."""

    clients: Clients  # as the ledger sees them
    devices: tuple[Client, ...] = ()
    probe: Client | None = None
    overhearing: tuple[int, ...] = ()  # subscribers of the load whose filter also matches the probe's topic
    is_loop: bool = False
    filters: tuple[Client, ...] = ()  # they fill the broker's table of subscriptions

    @property
    def beside(self) -> tuple[Client, ...]:
        """Those that are neither publishers nor subscribers of the load."""
        return (*self.devices, *([self.probe] if self.probe else []), *self.filters)

    def expected(self, publications: Mapping[int, int]) -> dict[str, int]:
        """How many messages each worker should receive of so many publications per publisher."""
        probes = publications.get(self.probe.number, 0) if self.probe else 0
        load = self.load(publications)
        expected = {LOOPS: self.clients.expected(load) + len(self.overhearing) * probes}
        if not self.is_loop:
            expected = self._expected_by_node(load, probes)
        if self.devices:
            expected[DEVICES] = sum(load.values())
        if self.probe:
            expected[PROBE] = probes
        return expected

    def _expected_by_node(self, load: Mapping[int, int], probes: int) -> dict[str, int]:
        where = self.clients.placed
        nodes = (0,) * len(self.clients.subscribers) if where is None else where.subscribers
        counts = self.clients.expected_at(load, nodes=max(nodes) + 1)
        for number in self.overhearing:
            counts[nodes[number]] += probes
        return {f"subscribers/{node}": counts[node] for node in sorted(set(nodes))}

    def load(self, publications: Mapping[int, int]) -> dict[int, int]:
        """The publications without the probe's."""
        own = None if self.probe is None else self.probe.number
        return {number: count for number, count in publications.items() if number != own}

    def probes(self, publications: Mapping[int, int]) -> int:
        return publications.get(self.probe.number, 0) if self.probe else 0


def cast_of(workload: Workload, clients: Clients, *, seed: int) -> Cast:
    mark = f"{seed & 0xFFFFFF:06x}"
    probe: Client | None = None
    overhearing: tuple[int, ...] = ()
    if workload.probe is not None:
        topic = f"{workload.topics.prefix}{PROBE_PREFIX}{mark}"
        # A number that neither a publisher nor a subscriber has.
        number = max(workload.publishers, workload.subscribers)
        probe = Client(number, f"bl{mark}x", topic, hears=topic)
        owed = clients.subscribers[: len(workload.topics.share) or None]  # of a group one member hears it
        overhearing = tuple(
            each.number for each in owed if any(topic_matches(own_filter(name), topic) for name in each.filters)
        )
    return Cast(
        clients,
        devices=_devices(workload, clients, mark) if workload.role is Roles.ECHO else (),
        probe=probe,
        overhearing=overhearing,
        is_loop=workload.role is Roles.LOOP,
        filters=_filters(workload, clients, mark) if workload.subscriptions.is_there else (),
    )


def _filters(workload: Workload, clients: Clients, mark: str) -> tuple[Client, ...]:
    """Each has its filters beside the topic of a publisher, whose first level is theirs too."""
    prefix = workload.topics.prefix
    levels = [prefix + each.topic.removeprefix(prefix).split("/")[0] for each in clients.publishers]
    return tuple(
        Client(number, f"bl{mark}f{number}", levels[number % len(levels)])
        for number in range(workload.subscriptions.clients)
    )


def _devices(workload: Workload, clients: Clients, mark: str) -> tuple[Client, ...]:
    """One for each publisher, whose messages it hears and answers."""
    return tuple(
        Client(
            each.number,
            f"bl{mark}d{each.number}",
            expand(workload.topics.reply, publisher=each.number),
            hears=each.topic,
        )
        for each in clients.publishers
    )


def specs_of(
    run: PlannedRun, cast: Cast, *, doors: Sequence[Door], folder: Path, devices_at: Place | None = None
) -> tuple[WorkerSpec, ...]:
    """The workers of a run; every part has one of its own, so that the CPU time of each is known.

    Who is neither publisher nor subscriber of the load is at the first node; devices may be at another place.
    """
    workload = run.cell.workload
    specs = list(worker_specs(run, cast.clients, doors=doors, folder=folder))
    first = doors[0]
    others = others_of(first, doors) if workload.clients.failover else ()
    publishing = replace(specs[0], host=first.host, port=first.port, place=first.place, others=others)
    if cast.is_loop:
        loops = tuple(replace(each, hears=each.topic) for each in cast.clients.publishers)
        specs[:2] = [replace(publishing, node=LOOPS, clients=loops, hears_qos=workload.qos)]
    if cast.devices:
        answering = replace(
            workload,
            qos=workload.echo.qos,
            retain=False,
            schedule=Schedule(),
            clients=_staying(workload),
            start=Start.CLOCK,
        )
        # Who hears the answers knows publishers by the topics of these, where payloads are too short to tell; only
        # the topics of the load are padded.
        replies = replace(workload.topics, publish=workload.topics.reply, depth=None, length_bytes=None)
        hearing = replace(workload, qos=workload.echo.qos, topics=replies)
        specs[1] = replace(specs[1], workload=hearing)
        specs.append(
            replace(
                publishing,
                node=DEVICES,
                place=devices_at or publishing.place,
                clients=cast.devices,
                workload=answering,
                files="device_",
                hears_qos=workload.qos,
            )
        )
    if cast.probe and workload.probe:
        probing = _probing(workload, workload.probe)
        specs.append(
            replace(
                publishing,
                node=PROBE,
                clients=(cast.probe,),
                workload=probing,
                fan_out=1.0,
                files="probe_",
                hears_qos=probing.qos,
            )
        )
    if cast.filters:
        filling = replace(workload, clients=_staying(workload), mqtt5=Mqtt5())
        specs.append(replace(publishing, node=FILTERS, clients=cast.filters, workload=filling))
    before = _before(workload, cast)
    return tuple(
        replace(spec, index=index, connects_after=before[spec.node.partition("/")[0]])
        for index, spec in enumerate(specs)
    )


def _before(workload: Workload, cast: Cast) -> dict[str, int]:
    """Clients of the run that connect before the one with the number 0 of each part; the probe has another number."""
    parts = population(workload)
    before = dict(zip(parts, accumulate(parts.values(), initial=0), strict=False))
    return before if cast.probe is None else before | {"probe": before["probe"] - cast.probe.number}


def _probing(workload: Workload, probe: Probe) -> Workload:
    """The probe's own load: it shares the load's protocol and nothing else."""
    return replace(
        workload,
        publishers=1,
        subscribers=1,
        payload_bytes=PROBE_BYTES,
        payload=Payload(),
        topics=Topics(),
        retain=False,
        qos=probe.qos,
        schedule=Schedule(rate_per_s=1 / probe.every_s),
        role=Roles.LOOP,
        probe=None,
        clients=_staying(workload),
        mqtt5=Mqtt5(),
        start=Start.CLOCK,
    )


def _staying(workload: Workload) -> ClientLife:
    """Those beside the load connect as all do and stay, whatever publishers do; they come back where all do."""
    life = workload.clients
    return ClientLife(
        keep_alive_s=life.keep_alive_s,
        connect_rate_per_s=life.connect_rate_per_s,
        addresses=life.addresses,
        reconnect=life.reconnect,
        failover=life.failover,
    )


@dataclass(frozen=True, slots=True)
class Besides:
    """What we published that is no load; the broker's own counters include it."""

    publications: int
    payload_bytes: int
    qos: tuple[int, ...]


def besides(
    workload: Workload, *, probes: int, answered: tuple[int, int], commands: Sequence[bytes] = (),
    wiped: Sequence[int] = (),
) -> Besides:  # fmt: skip
    """Of probes, devices' answers, the messages that started the publishers and those that wiped out retained ones.

    `answered` has the answers and their bytes, `wiped` the QoS of each message of that kind, which are empty.
    """
    answers, answered_bytes = answered
    qos = {int(workload.probe.qos)} if workload.probe else set()
    qos |= {int(workload.echo.qos)} if workload.role is Roles.ECHO else set()
    qos |= {COMMAND_QOS} if commands else set()
    qos |= set(wiped)
    payload_bytes = probes * PROBE_BYTES + answered_bytes + sum(map(len, commands))
    return Besides(probes + answers + len(commands) + len(wiped), payload_bytes, tuple(sorted(qos)))


def cast_section(cast: Cast, granted: Mapping[int, Granted], devices: Mapping[int, Granted]) -> dict[str, object]:
    """For the manifest: the clients that are neither publishers nor subscribers of the load."""
    section: dict[str, object] = {}
    if cast.devices:
        section["devices"] = [
            {"device": each.number, "filter": each.hears, "topic": each.topic, "granted_qos": devices[each.number].qos}
            for each in cast.devices
        ]
    if cast.probe:
        number = cast.probe.number
        section["probe"] = {"publisher": number, "topic": cast.probe.topic, "granted_qos": granted[number].qos}
    return section
