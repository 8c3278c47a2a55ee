"""Proves that what is published at any node of an ensemble is delivered at every other, before anything counts.

One client at each node subscribes to a topic of the proof's own and publishes below it at every QoS, again and again,
until each has got something of each at each QoS, or time is up: then the error says between which nodes nothing came.
"""

import contextlib
import secrets
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from brokerlab.errors import RunError
from brokerlab.inside import inside
from brokerlab.load.client import Client, Login
from brokerlab.load.topics import PROOF_PREFIX
from brokerlab.study.places import LOOPBACK, Place

_LISTEN_S = 0.05  # at each node, between two rounds
_QUIET_S = 0.1  # after the last: what goes round comes again
_LONGEST_S = 1.0  # of taking in without a pause: messages that go round never end
_ANSWER_S = 5.0


@dataclass(frozen=True, slots=True)
class Door:
    """How a client of the lab gets to one node."""

    node: int
    host: str
    port: int
    login: Login = field(default_factory=Login)
    place: Place = LOOPBACK  # where the client is

    def open(self, *, protocol: str | None = None) -> Client:
        """A client of the version of MQTT that is asked for, or of the usual one."""
        with inside(self.place.namespace):
            return Client(self.host, self.port, login=self.login, protocol=protocol, timeout_s=_ANSWER_S)


@dataclass(frozen=True, slots=True)
class Crossed:
    """What was proved."""

    ways: int  # from one node to another, each at every QoS
    qos: tuple[int, ...]
    seconds: float
    publications: int
    duplicates: int  # messages that came more than once to one node
    lowered: tuple[tuple[int, int, int, int], ...] = ()  # from, to, QoS published, lower QoS delivered

    def section(self) -> dict[str, object]:
        """For the manifest."""
        return {
            "ways": self.ways,
            "qos": list(self.qos),
            "seconds": self.seconds,
            "publications": self.publications,
            "duplicates": self.duplicates,
            "lowered": [
                {"from": one, "to": other, "published_qos": asked, "delivered_qos": got}
                for one, other, asked, got in self.lowered
            ],
        }


class NotCrossedError(RunError):
    """Nothing came from `start` to `end` in time, or too much."""

    def __init__(self, message: str, *, start: int, end: int) -> None:
        super().__init__(message)
        self.start, self.end = start, end


def prove_crossings(
    doors: Sequence[Door], *, qos: Sequence[int], deadline_s: float, prefix: str = "", check: Callable[[], None]
) -> Crossed:
    """Returns when a message of every node has reached every other at every QoS; `check` raises when one has died."""
    began = time.monotonic()
    with _Proof(doors, qos, prefix) as proof:
        while proof.waiting:
            check()
            if time.monotonic() - began > deadline_s:
                raise proof.failure(deadline_s)
            proof.turn()
        proof.listen(_QUIET_S)
        proof.refuse_echoes()
        return proof.crossed(time.monotonic() - began)


class _Proof:
    def __init__(self, doors: Sequence[Door], qos: Sequence[int], prefix: str) -> None:
        self._doors = {door.node: door for door in doors}
        self._qos = tuple(qos)
        self._topic = f"{prefix}{PROOF_PREFIX}{secrets.token_hex(8)}"
        self._clients: dict[int, Client] = {}
        self._last = ""  # what went wrong
        self._round, self._publications = 0, 0
        self._copies: Counter[tuple[int, bytes, str]] = Counter()
        self._delivered: dict[tuple[int, int, int], int] = {}
        self.waiting = {
            (start, end, level) for start in self._doors for end in self._doors if start != end for level in qos
        }
        self._ways = len(self.waiting) // len(self._qos)

    def __enter__(self) -> "_Proof":
        return self

    def __exit__(self, *_problem: object) -> None:
        for node in list(self._clients):
            self._drop(node)

    def turn(self) -> None:
        """Publishes what has not got everywhere yet, and takes in what comes."""
        self._round += 1
        for node in self._doors:
            self._tried(node, self._ready)
        for node, level in sorted({(start, level) for start, _, level in self.waiting}):
            self._tried(node, partial(self._publish, node=node, level=level))
        self.listen(_LISTEN_S)

    def listen(self, seconds: float) -> None:
        for node in self._doors:
            self._tried(node, partial(self._take, node=node, seconds=seconds))

    def crossed(self, seconds: float) -> Crossed:
        lowered = tuple(sorted((*way, got) for way, got in self._delivered.items() if got < way[2]))
        duplicates = sum(count - 1 for count in self._copies.values())
        return Crossed(self._ways, self._qos, seconds, self._publications, duplicates, lowered)

    def refuse_echoes(self) -> None:
        """At QoS 0 nobody sends twice: what comes twice took two ways, or came back."""
        twice = [
            (topic, node) for (node, _, topic), count in self._copies.items() if count > 1 and topic.endswith("/0")
        ]
        if twice:
            topic, end = twice[0]
            start = int(topic.split("/")[-2])
            raise NotCrossedError(
                f"a message of node {start} came to node {end} more than once at QoS 0: nodes are joined in two ways",
                start=start,
                end=end,
            )

    def failure(self, deadline_s: float) -> NotCrossedError:
        start, end, level = min(self.waiting)
        pairs = {(one, other) for one, other, _ in self.waiting}
        more = f" (nor between {len(pairs) - 1} other pairs)" if len(pairs) > 1 else ""
        last = f"; the last trouble: {self._last}" if self._last else ""
        return NotCrossedError(
            f"no message came from node {start} to node {end} at QoS {level} in {deadline_s:g} s{more}{last}",
            start=start,
            end=end,
        )

    def _tried(self, node: int, action: Callable[[Client], None]) -> None:
        """What fails is tried again in the next round, over a new connection: nodes that join may close it."""
        try:
            if node not in self._clients:
                self._clients[node] = self._doors[node].open()
                self._clients[node].subscribe(f"{self._topic}/#", max(self._qos), timeout_s=_ANSWER_S)
            action(self._clients[node])
        except RunError as problem:
            self._last = problem.message
            self._drop(node)

    def _drop(self, node: int) -> None:
        if (client := self._clients.pop(node, None)) is not None:
            with contextlib.suppress(RunError):
                client.disconnect()

    def _ready(self, _client: Client) -> None:
        """It is connected and has subscribed."""

    def _publish(self, client: Client, *, node: int, level: int) -> None:
        client.publish(f"{self._topic}/{node}/{level}", str(self._round).encode(), qos=level, timeout_s=_ANSWER_S)
        self._publications += 1

    def _take(self, client: Client, *, node: int, seconds: float) -> None:
        until = time.monotonic() + max(seconds, _LONGEST_S)
        while time.monotonic() < until and (message := client.receive(timeout_s=seconds)) is not None:
            start, level = (int(part) for part in message.topic.split("/")[-2:])
            self._copies[node, message.payload, message.topic] += 1
            if start != node:
                way = (start, node, level)
                self.waiting.discard(way)
                self._delivered[way] = max(self._delivered.get(way, 0), message.qos)
