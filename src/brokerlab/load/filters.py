"""The filters that one client holds in the broker's table, and the packets that change them.

Client c has the filters number `oldest` to `next` - 1; nothing is kept of each but its number.
A literal one stands beside a topic of the load, a wildcard one where every topic of the load passes, so that a broker
has to look for both among as many others as the table has, and finds neither:

    load        brokerlab/0
    literal     brokerlab/brokerlab-table-c-n
    wildcard    +/brokerlab-table-c-n/#
"""

from collections import deque
from dataclasses import dataclass

from brokerlab.load.outbox import Outbox
from brokerlab.load.packets import Subscribe, Unsubscribe
from brokerlab.load.parser import Parser
from brokerlab.load.spec import Client
from brokerlab.load.stream import Stream
from brokerlab.study.table import TABLE_MARK, FilterKind, FilterTable

FILL, SUBSCRIBE, UNSUBSCRIBE = "fill", "subscribe", "unsubscribe"  # as events of sessions too
REFILL = "refill"  # what a client of the table had, over its next connection

AT_ONCE = 500  # filters of one SUBSCRIBE while the table is filled
_MOST_WAITING = 65_535  # packet identifiers of one client, section 2.3.1


def filter_of(client: Client, kind: FilterKind, number: int) -> str:
    own = f"{TABLE_MARK}{client.number}-{number}"
    if kind is FilterKind.LITERAL:
        return f"{client.topic}/{own}"
    prefix, slash, _ = client.topic.rpartition("/")  # of a remote broker's, elsewhere nothing
    return f"{prefix}{slash}+/{own}/#"


def share_of(table: FilterTable, number: int) -> int:
    """How many filters of the table are those of this client."""
    each, rest = divmod(table.table, table.clients)
    return each + (number < rest)


@dataclass(frozen=True, slots=True)
class Asked:
    """A packet that waits for its answer."""

    what: str
    at_ns: int  # of the schedule; while the table is filled when it was sent
    filters: int = 1


class Holder:
    """One client with its part of the table."""

    __slots__ = (
        "_kind", "_level", "_packet_id", "client", "due_ns", "next", "oldest", "outbox", "parser", "standing", "stream",
        "to_fill", "to_refill", "waiting",
    )  # fmt: skip

    def __init__(self, client: Client, stream: Stream, table: FilterTable, *, level: int) -> None:
        self.client, self.stream, self.outbox, self.parser = client, stream, Outbox(stream), Parser(level)
        self._kind, self._level = table.kind, level
        self.to_fill = share_of(table, client.number)
        self.to_refill = range(0)  # numbers of filters
        self.standing = 0  # filters that the broker has, by its own word
        self.oldest = self.next = self._packet_id = 0
        self.waiting: dict[int, Asked] = {}
        self.due_ns: deque[int] = deque()  # of what the stream has not taken yet

    @property
    def has_room(self) -> bool:
        return len(self.waiting) < _MOST_WAITING

    def fill(self, now: int) -> None:
        """Asks for some more of its part of the table."""
        count = min(self.to_fill, AT_ONCE)
        names = tuple((self._name(self.next + place), 0) for place in range(count))
        self.to_fill -= count
        self.next += count
        packet_id = self._ask(Asked(FILL, now, count))
        self.outbox.put(memoryview(Subscribe(packet_id, names).encode(self._level)))

    def come_back(self, stream: Stream) -> None:
        """Goes on over another connection, with a session that has none of its filters."""
        self.stream, self.outbox, self.parser = stream, Outbox(stream), Parser(self._level)
        self.to_refill = range(self.oldest, self.next)

    def refill(self, now: int) -> None:
        """Asks for some more of what it had."""
        names = tuple((self._name(number), 0) for number in self.to_refill[:AT_ONCE])
        self.to_refill = self.to_refill[AT_ONCE:]
        packet_id = self._ask(Asked(REFILL, now, len(names)))
        self.outbox.put(memoryview(Subscribe(packet_id, names).encode(self._level)))

    def subscribe(self, due_ns: int) -> None:
        """A new filter, at QoS 0: nothing shall come of it."""
        packet = Subscribe(self._ask(Asked(SUBSCRIBE, due_ns)), ((self._name(self.next), 0),))
        self.next += 1
        self._put(packet.encode(self._level), due_ns)

    def unsubscribe(self, due_ns: int) -> None:
        """The oldest one goes."""
        packet = Unsubscribe(self._ask(Asked(UNSUBSCRIBE, due_ns)), (self._name(self.oldest),))
        self.oldest += 1
        self._put(packet.encode(self._level), due_ns)

    def _put(self, packet: bytes, due_ns: int) -> None:
        self.due_ns.append(due_ns)
        self.outbox.put(memoryview(packet), stride=len(packet))

    def _ask(self, asked: Asked) -> int:
        """A packet identifier that is not in use."""
        self._packet_id = self._packet_id % _MOST_WAITING + 1
        while self._packet_id in self.waiting:
            self._packet_id = self._packet_id % _MOST_WAITING + 1
        self.waiting[self._packet_id] = asked
        return self._packet_id

    def _name(self, number: int) -> str:
        return filter_of(self.client, self._kind, number)
