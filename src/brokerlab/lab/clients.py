"""Who publishes and subscribes in a run, in which worker, and what should arrive where: pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from brokerlab.errors import UserError
from brokerlab.lab.crossing import Door
from brokerlab.load.spec import Client, Granted, WorkerSpec
from brokerlab.study.hearing import Flows, Longs, TopicIndex, flows_of
from brokerlab.study.placing import Placed, placed
from brokerlab.study.plan import PlannedRun
from brokerlab.study.topics import expand, filters_of, pattern_of, shared_filter, topic_of, topics_of
from brokerlab.study.values import Roles, SubscribeAt, Topics, Workload
from brokerlab.study.wills import WILL_PREFIX


@dataclass(frozen=True, slots=True)
class Clients:
    """All clients of a run, and which publishers each subscriber should hear."""

    publishers: tuple[Client, ...]
    subscribers: tuple[Client, ...]
    flows: Flows  # of a shared subscription those of its first member: the group gets every message once
    is_replay: bool = False  # subscribers come after the messages and get the last one of each topic
    idle: tuple[Client, ...] = ()  # they connect and keep alive, and nothing else
    placed: Placed | None = None  # None: all at one node
    is_loop: bool = False  # subscribers are the publishers themselves, over one connection

    def connecting(self) -> tuple[Client, ...]:
        """All that connect: publishers, subscribers, then idle ones."""
        return (*self.publishers, *(() if self.is_loop else self.subscribers), *self.idle)

    def hubs(self) -> list[tuple[int, str]]:
        """Node and topic of each publisher, by its number."""
        nodes = self.placed.publishers if self.placed else (0,) * len(self.publishers)
        return [(node, each.topic) for node, each in zip(nodes, self.publishers, strict=True)]

    def at(self, role: str, node: int) -> tuple[Client, ...]:
        """The publishers, subscribers or idle clients of a node; who idles does so at the first."""
        every: tuple[Client, ...] = getattr(self, role)
        if self.placed is None or role == "idle":
            return every if node == 0 else ()
        nodes: tuple[int, ...] = getattr(self.placed, role)
        return tuple(client for client in every if nodes[client.number] == node)

    @property
    def fan_out(self) -> float:
        """Expected deliveries per publication, on average over the publishers and their topics."""
        once = np.ones(self.flows.publishers * self.flows.count, dtype=np.int64)
        return float(self.flows.sums(once).sum()) / once.size

    def expected(self, publications: Mapping[int, int]) -> int:
        """How many deliveries should come of so many publications per publisher."""
        return int(self._sums(publications).sum())

    def expected_at(self, publications: Mapping[int, int], *, nodes: int) -> list[int]:
        """The same by the node of the subscribers."""
        sums = self._sums(publications)
        if self.placed is None:
            return [int(sums.sum())] + [0] * (nodes - 1)
        places = np.array(self.placed.subscribers)[self.flows.subscriber]
        return [int(sums[places == node].sum()) for node in range(nodes)]

    def _sums(self, publications: Mapping[int, int]) -> Longs:
        by_channel = self._by_channel(publications)
        return self.flows.sums(np.minimum(by_channel, 1) if self.is_replay else by_channel)

    def _by_channel(self, publications: Mapping[int, int]) -> Longs:
        """Publications of each topic of each publisher: they take turns, the first topic first."""
        count = self.flows.count
        sent = np.array([publications[number] for number in range(len(self.publishers))], dtype=np.int64)
        turns, rest = np.divmod(sent, count)
        by_channel: Longs = turns[:, None] + (np.arange(count) < rest[:, None])
        return by_channel.ravel()


def clients_of(workload: Workload, *, seed: int, nodes: int = 1, placement_seed: int = 0) -> Clients:
    """The clients of a workload at so many nodes, where another seed may decide who is where.

    Their identifiers are short (MQTT 3.1.1 promises 23 characters) and the run's own.
    """
    mark = f"{seed & 0xFFFFFF:06x}"
    topics, count = workload.topics, workload.topics.count
    publishers = tuple(
        Client(number, f"bl{mark}p{number}", topic_of(topics, number), will=_will(workload, number))
        for number in range(workload.publishers)
    )
    filters = _filters(workload, [each.topic for each in publishers])
    subscribers = tuple(
        Client(number, f"bl{mark}s{number}", own[0], filters=_shared(own, topics, number))
        for number, own in enumerate(filters)
    )
    groups = len(topics.share)
    owed = [() if groups and number >= groups else own for number, own in enumerate(filters)]
    flows = flows_of(owed, _index(workload, publishers), count=count)
    if not flows.size:
        raise UserError(
            f"no subscriber would get a message: {workload.topics.subscribe!r} matches no {workload.topics.publish!r}",
            hint="change scenario.workload.topics",
        )
    idle = tuple(Client(number, f"bl{mark}i{number}", "") for number in range(workload.clients.idle))
    where = None
    if nodes > 1:
        where = placed(
            workload.placement,
            flows,
            publishers=workload.publishers,
            subscribers=workload.subscribers,
            nodes=nodes,
            seed=placement_seed,
        )
    is_replay = topics.subscribe_at is SubscribeAt.AFTER
    is_loop = workload.role is Roles.LOOP
    return Clients(publishers, subscribers, flows, is_replay=is_replay, idle=idle, placed=where, is_loop=is_loop)


def _will(workload: Workload, publisher: int) -> str:
    return "" if workload.will is None else f"{workload.topics.prefix}{WILL_PREFIX}{publisher}"


def group_of(topics: Topics, subscriber: int) -> str | None:
    """The group of a shared subscription that the subscriber belongs to: they take turns."""
    return topics.share[subscriber % len(topics.share)] if topics.share else None


def clients_section(clients: Clients, granted: Mapping[int, Granted], workload: Workload) -> dict[str, object]:
    """For the manifest: who publishes to what, and what was granted to whom."""
    topics = workload.topics
    several = {"topics": topics.count} if topics.count > 1 else {}
    return {
        "publishers": [
            {"publisher": each.number, "topic": each.topic, **several}
            | ({"reply": reply} if (reply := reply_topic(workload, each)) else {})
            | ({"node": clients.placed.publishers[each.number]} if clients.placed else {})
            for each in clients.publishers
        ],
        "subscribers": [
            _subscriber_entry(each, granted[each.number], topics, is_replay=clients.is_replay)
            | ({"node": clients.placed.subscribers[each.number]} if clients.placed else {})
            for each in clients.subscribers
        ],
    }


def placement_section(clients: Clients, *, nodes: int) -> dict[str, object]:
    """For the manifest: how many clients each node has, and how many of a hundred flows stay at one node."""
    counts = [{role: len(clients.at(role, node)) for role in ("publishers", "subscribers")} for node in range(nodes)]
    return {"nodes": counts, "local_percent": clients.placed.local_percent(clients.flows) if clients.placed else None}


def _subscriber_entry(client: Client, granted: Granted, topics: Topics, *, is_replay: bool) -> dict[str, object]:
    entry: dict[str, object] = {"subscriber": client.number}
    if len(client.filters) == 1:
        entry |= {"filter": client.filters[0]}
    else:
        entry |= {"filters": list(client.filters), "granted": list(granted.codes)}
    if (group := group_of(topics, client.number)) is not None:
        entry |= {"group": group}
    if is_replay:
        entry |= {"replayed_since_ns": granted.asked_ns}
    return entry | {"granted_qos": granted.qos}


def _shared(filters: tuple[str, ...], topics: Topics, subscriber: int) -> tuple[str, ...]:
    group = group_of(topics, subscriber)
    return filters if group is None else tuple(shared_filter(group, each) for each in filters)


def reply_topic(workload: Workload, publisher: Client) -> str | None:
    """The topic on which a publisher's messages are heard, where it is not its own."""
    if workload.role is not Roles.ECHO:
        return None
    return expand(workload.topics.reply, publisher=publisher.number)


def _filters(workload: Workload, topics: list[str]) -> list[tuple[str, ...]]:
    """What each subscriber hears: in the roles echo and loop every publisher hears what became of its own."""
    publishers = workload.publishers
    if workload.role is Roles.LOOP:
        return [(topic,) for topic in topics]
    if workload.role is Roles.ECHO:
        return [(expand(workload.topics.reply, publisher=number),) for number in range(publishers)]
    return [filters_of(workload.topics, number, publishers=publishers) for number in range(workload.subscribers)]


def _index(workload: Workload, publishers: tuple[Client, ...]) -> TopicIndex:
    """Where the messages of each publisher are heard."""
    topics, size = workload.topics, workload.publishers * workload.topics.count
    if workload.role is Roles.ECHO:
        return TopicIndex(lambda: (reply_topic(workload, each) or each.topic for each in publishers), size=size)
    names = (topic for number in range(workload.publishers) for topic in topics_of(topics, number))
    return TopicIndex(lambda: names, size=size, pattern=pattern_of(topics))


def worker_specs(run: PlannedRun, clients: Clients, *, doors: Sequence[Door], folder: Path) -> tuple[WorkerSpec, ...]:
    """One worker publishes, another subscribes, so that the CPU time of each part is known; a third one may idle.

    At several nodes each that has clients of a role has a worker for it, with its number.
    """
    specs = [
        WorkerSpec(
            node=f"{role}/{door.node}",
            index=0,
            host=door.host,
            port=door.port,
            clients=members,
            workload=run.cell.workload,
            fan_out=clients.fan_out,
            seed=run.seed,
            run=folder,
            place=door.place,
            others=others_of(door, doors) if run.cell.workload.clients.failover else (),
        )
        for role in ("publishers", "subscribers", "idle")
        for door in doors
        if (members := clients.at(role, door.node))
    ]
    return tuple(replace(spec, index=index) for index, spec in enumerate(specs))


def others_of(own: Door, doors: Sequence[Door]) -> tuple[tuple[str, int], ...]:
    """The other nodes, from the one after its own on."""
    return tuple((each.host, each.port) for each in (*doors[own.node + 1 :], *doors[: own.node]))
