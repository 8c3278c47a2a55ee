"""Who publishes and subscribes in a run, in which worker, and what should arrive where: pure."""

from dataclasses import dataclass
from pathlib import Path

from brokerlab.errors import UserError
from brokerlab.load.spec import Client, WorkerSpec
from brokerlab.study.plan import PlannedRun
from brokerlab.study.topics import expand, topic_matches
from brokerlab.study.values import Roles, Workload

PUBLISHERS, SUBSCRIBERS, IDLE = "publishers/0", "subscribers/0", "idle/0"


@dataclass(frozen=True, slots=True)
class Clients:
    """All clients of a run, and which publishers each subscriber should hear."""

    publishers: tuple[Client, ...]
    subscribers: tuple[Client, ...]
    heard: dict[int, tuple[int, ...]]  # subscriber -> publishers
    idle: tuple[Client, ...] = ()  # they connect and keep alive, and nothing else

    @property
    def fan_out(self) -> float:
        """Expected deliveries per publication, on average over the publishers."""
        return sum(len(publishers) for publishers in self.heard.values()) / len(self.publishers)

    def expected(self, publications: dict[int, int]) -> int:
        """How many deliveries should come of so many publications per publisher."""
        return sum(publications[number] for publishers in self.heard.values() for number in publishers)


def clients_of(workload: Workload, *, seed: int) -> Clients:
    """The clients of a workload; their identifiers are short (MQTT 3.1.1 promises 23 characters) and the run's own."""
    mark = f"{seed & 0xFFFFFF:06x}"
    publishers = tuple(
        Client(number, f"bl{mark}p{number}", expand(workload.topics.publish, publisher=number))
        for number in range(workload.publishers)
    )
    subscribers = tuple(
        Client(number, f"bl{mark}s{number}", topic_filter)
        for number, topic_filter in enumerate(_filters(workload, [each.topic for each in publishers]))
    )
    heard = {
        subscriber.number: tuple(
            each.number
            for each in publishers
            if topic_matches(subscriber.topic, reply_topic(workload, each) or each.topic)
        )
        for subscriber in subscribers
    }
    if not any(heard.values()):
        raise UserError(
            f"no subscriber would get a message: {workload.topics.subscribe!r} matches no {workload.topics.publish!r}",
            hint="change scenario.workload.topics",
        )
    idle = tuple(Client(number, f"bl{mark}i{number}", "") for number in range(workload.clients.idle))
    return Clients(publishers, subscribers, heard, idle)


def reply_topic(workload: Workload, publisher: Client) -> str | None:
    """The topic on which a publisher's messages are heard, where it is not its own."""
    if workload.role is not Roles.ECHO:
        return None
    return expand(workload.topics.reply, publisher=publisher.number)


def _filters(workload: Workload, topics: list[str]) -> list[str]:
    """What each subscriber hears: in the roles echo and loop every publisher hears what became of its own."""
    if workload.role is Roles.LOOP:
        return topics
    if workload.role is Roles.ECHO:
        return [expand(workload.topics.reply, publisher=number) for number in range(workload.publishers)]
    return [expand(workload.topics.subscribe, subscriber=number) for number in range(workload.subscribers)]


def worker_specs(run: PlannedRun, clients: Clients, *, host: str, port: int, folder: Path) -> tuple[WorkerSpec, ...]:
    """One worker publishes, another subscribes, so that the CPU time of each part is known; a third one may idle."""
    workload = run.cell.workload
    roles = [(PUBLISHERS, clients.publishers), (SUBSCRIBERS, clients.subscribers), (IDLE, clients.idle)]
    return tuple(
        WorkerSpec(
            node=node,
            index=index,
            host=host,
            port=port,
            clients=members,
            workload=workload,
            fan_out=clients.fan_out,
            seed=run.seed,
            run=folder,
        )
        for index, (node, members) in enumerate(roles)
        if members
    )
