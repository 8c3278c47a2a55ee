"""The probe of an ensemble: what of MQTT crosses from one of its nodes to another, and what stays where it was.

That messages cross is proved before (lab/crossing.py), or there is no ensemble. The rest no specification asks for,
so that it is neither kept nor broken: it is told as it is, for every way from a node to another.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event

from brokerlab import inventory
from brokerlab.brokers.base import Clusters, Missing, Security
from brokerlab.brokers.registry import driver
from brokerlab.errors import UserError
from brokerlab.lab.crossing import Crossed
from brokerlab.lab.ensemble import Nodes, Setup
from brokerlab.lab.probe.room import Place, Room
from brokerlab.lab.probe.values import NotKept, Unsupported
from brokerlab.lab.stand import on_loopback
from brokerlab.load.client import Login
from brokerlab.load.packets import LEVELS, Will
from brokerlab.study.ensemble_values import Ensemble, Join
from brokerlab.study.values import BrokerChoice

_LEVEL = LEVELS["3.1.1"]
_AT_ONCE = 6
_SETTLE_S = 1.0  # what one node learns the others know after this, if ever
_COMES_S = 2.0
_SHARED = 20


@dataclass(frozen=True, slots=True)
class Seen:
    """Of one way; None: nothing can be said."""

    start: int
    end: int
    crosses: bool | None
    what: str
    is_supported: bool = True  # by one node alone


@dataclass(frozen=True, slots=True)
class Property:
    id: str
    title: str
    look: Callable[[Room, Room], tuple[bool, str]]  # at one node and at another


@dataclass(frozen=True, slots=True)
class Joined:
    """An ensemble that is up."""

    name: str
    version: str
    join: Join
    pairs: tuple[tuple[int, int], ...]  # bridges
    crossed: Crossed
    places: tuple[Place, ...]  # by node
    has_groups: bool  # of shared subscriptions, by the driver's word


def _retained(here: Room, there: Room) -> tuple[bool, str]:
    topic = here.topic("kept")
    here.retain(here.peer("pub"), topic, b"kept", qos=1)
    there.pause(_SETTLE_S)
    late = there.peer("late")
    late.subscribe(topic, 1)
    came = late.received(1, within_s=_COMES_S)
    return bool(came), "a later subscriber gets it" if came else "a later subscriber gets nothing"


def _session(here: Room, there: Room) -> tuple[bool, str]:
    name, topic = here.client_id(), here.topic("t")
    subscriber = here.peer("sub", client_id=name, clean=False)
    here.require_granted(subscriber.subscribe(topic, 1), 1)
    subscriber.disconnect()
    here.peer("pub").publish(topic, b"queued", qos=1)
    there.pause(_SETTLE_S)
    back = there.peer("back", client_id=name, clean=False)
    came = back.received(1, within_s=_COMES_S)
    queued = "the queued message came" if came else "the queued message did not come"
    return bool(came), f"session present {int(back.connack.session_present)}, {queued}"


def _takeover(here: Room, there: Room) -> tuple[bool, str]:
    name = here.client_id()
    first = here.peer("first", client_id=name)
    there.peer("second", client_id=name)
    is_ended = first.is_ended(within_s=_COMES_S)
    return is_ended, "the first connection is closed" if is_ended else "both connections stand"


def _shared(here: Room, there: Room) -> tuple[bool, str]:
    topic, group = here.topic("work"), here.client_id()
    members = [room.peer(f"member{number}") for number, room in enumerate((here, there))]
    for member in members:
        member.subscribe(f"$share/{group}/{topic}", 1)
    here.pause(_SETTLE_S)
    publisher = here.peer("pub")
    for number in range(_SHARED):
        publisher.publish(topic, bytes((number,)), qos=1)
    got = [len(member.received(_SHARED, within_s=_COMES_S)) for member in members]
    if not any(got):
        raise Unsupported("no member of a shared subscription gets anything")
    said = f"{_SHARED} messages: {got[0]} to the member here, {got[1]} to the one there"
    return sum(got) == _SHARED and got[1] > 0, said


def _will(here: Room, there: Room) -> tuple[bool, str]:
    topic = here.topic("will")
    watcher = there.peer("watcher")
    watcher.subscribe(topic, 1)
    there.pause(_SETTLE_S)
    here.peer("mortal", will=Will(topic, b"gone", 1)).abort()
    came = watcher.received(1, within_s=_COMES_S)
    return bool(came), "the will comes" if came else "no will comes"


PROPERTIES = (
    Property("retained", "a retained message is there for later subscribers at another node", _retained),
    Property("session", "a session that is kept can be taken up at another node", _session),
    Property("takeover", "a client that connects at another node ends its first connection", _takeover),
    Property("share", "members of a shared subscription at two nodes are one group", _shared),
    Property("will", "a will is delivered at another node", _will),
)


def join_of(name: str, join: str | None) -> Join:
    """How nodes of a broker are joined: as asked, or as a cluster where it has some, else by bridges."""
    broker = driver(name)
    can_cluster = isinstance(broker, Clusters) and broker.abilities.has_clusters
    kind = Join(join) if join else Join.CLUSTER if can_cluster else Join.BRIDGE
    if kind is Join.CLUSTER and not can_cluster:
        raise UserError(f"{name} has no clusters", hint="take --join bridge")
    return kind


@contextlib.contextmanager
def opened_ensemble(name: str, *, nodes: int, join: str | None) -> Iterator[Joined]:
    """So many nodes of a broker on ports of this machine, joined, and proved to be."""
    broker = driver(name)
    found = broker.find()
    if isinstance(found, Missing):
        raise UserError(f"{name} is not here: {found.reason}", hint=found.hint)
    kind = join_of(name, join)
    most = broker.abilities.most_nodes
    if kind is Join.CLUSTER and most is not None and nodes > most:
        raise UserError(f"{name} may have at most {most} nodes by its licence")
    with inventory.temporary_folder("brokerlab-probe-") as temporary:
        private = temporary / "private"
        private.mkdir(mode=0o700)
        setup = Setup(
            Ensemble(nodes, kind),
            (BrokerChoice(name, name),) * nodes,
            on_loopback(nodes),
            temporary / "nodes",
            security=Security(folder=private),
        )
        with Nodes(setup) as running:
            has_groups = broker.abilities.has_shared_subscriptions
            places = tuple(_place(door.host, door.port, door.login) for door in running.doors())
            if running.crossed is None:
                raise ValueError("one node is no ensemble")
            yield Joined(name, found.version, kind, running.pairs, running.crossed, places, has_groups)


def _place(host: str, port: int, login: Login) -> Place:
    return Place(host, port, user=login.user, password=login.password)


def look(joined: Joined, *, only: Sequence[Property] = PROPERTIES) -> dict[str, list[Seen]]:
    """What was seen of each property on every way from a node to another."""
    nodes = range(len(joined.places))
    ways = [(start, end) for start in nodes for end in nodes if start != end]
    stop = Event()
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="probe") as pool:
        try:
            return {
                each.id: list(pool.map(lambda way, each=each: _on_way(joined, each, *way, stop=stop), ways))
                for each in only
            }
        except BaseException:
            stop.set()
            pool.shutdown(cancel_futures=True)
            raise


def _on_way(joined: Joined, what: Property, start: int, end: int, *, stop: Event) -> Seen:
    if what.look is _shared and not joined.has_groups:
        return Seen(start, end, None, "the broker has no shared subscriptions", is_supported=False)
    with (
        Room(joined.places[start], level=_LEVEL, name=what.id, stop=stop) as here,
        Room(joined.places[end], level=_LEVEL, name=what.id, stop=stop) as there,
    ):
        there.base = here.base
        try:
            crosses, said = what.look(here, there)
        except NotKept as problem:
            return Seen(start, end, None, str(problem), not isinstance(problem, Unsupported))
    return Seen(start, end, crosses, said)
