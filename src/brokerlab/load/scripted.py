"""A small broker of our own that is correct but for the faults of its script, to prove the meter with.

    python -m brokerlab.load.scripted SCRIPT.json     {"host": ..., "port": ..., "faults": {...}, "deeds": NAME}

MQTT 3.1.1 with QoS 0, 1 and 2 on both legs, + and # in filters, retained messages, wills and shared subscriptions,
whose members take turns. A session that lasts keeps its subscriptions, what is not acknowledged and what comes while
its client is away.

    PUBLISH -> number it -> acknowledge -> swap, hold -> drop, delay, serve -> match -> duplicate -> PUBLISH

The faults are described in study/script.py; those of one connection are made in scripted_client.py.
What it did, and when, goes to a file beside its script, if one is named: deeds.py.
"""

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from brokerlab.errors import ExitCode, LabError
from brokerlab.load.deeds import Book, Notes, Nothing
from brokerlab.load.packets import Publish, Will
from brokerlab.load.scripted_client import Connection
from brokerlab.load.topics import PROOF_PREFIX
from brokerlab.study.script import Script, script_from_json
from brokerlab.study.topics import topic_matches

_FOREIGN = b"a message that nobody of this run has published"


@dataclass(slots=True)
class _Order:
    """Puts numbered messages into the order in which they leave: the script's swaps and holds, else as they came."""

    swap: tuple[tuple[int, int], ...]
    hold: Mapping[int, int]
    swapped: dict[int, Publish] = field(default_factory=dict)
    held: dict[int, Publish] = field(default_factory=dict)

    def next(self, number: int, message: Publish) -> list[tuple[int, Publish]]:
        """What may leave now that this message is here."""
        leaving = []
        for each, ready in self._swap(number, message):
            if each in self.hold:
                self.held[each] = ready
                continue
            leaving.append((each, ready))
            waited = sorted(first for first, second in self.hold.items() if second == each and first in self.held)
            leaving += [(first, self.held.pop(first)) for first in waited]
        return leaving

    def _swap(self, number: int, message: Publish) -> list[tuple[int, Publish]]:
        for first, second in self.swap:
            if first <= number <= second:
                self.swapped[number] = message
                return self._release(first, second) if number == second else []
        return [(number, message)]

    def _release(self, first: int, second: int) -> list[tuple[int, Publish]]:
        order = [second, *range(first + 1, second), first]
        return [(number, self.swapped.pop(number)) for number in order]


class ScriptedBroker:
    """Numbers what arrives, keeps the clients, and delivers; `Connection` speaks for one client each."""

    def __init__(self, script: Script, notes: Notes | None = None) -> None:
        self.script, self.notes = script, notes or Nothing()
        self.arrivals = 0
        self._connects = self._subscribes = self._due_wills = self._idle_wills = 0
        self._order = _Order(script.swap, script.hold)
        self._connections: dict[str, Connection] = {}
        self._retained: dict[str, Publish] = {}
        self._turns: dict[str, int] = {}  # of shared subscriptions, by their whole filter
        self._away: dict[str, Connection] = {}  # of clients whose session lasts
        self._free_s = 0.0  # when the last message is served, by the loop's clock

    def connect(self) -> int:
        self._connects += 1
        return self._connects

    def subscribe(self) -> int:
        self._subscribes += 1
        return self._subscribes

    def join(self, client_id: str, connection: Connection) -> Connection | None:
        """Takes a client in; an older connection of the same name ends (section 3.1.4).

        What the older one leaves behind, where both want the session to last.
        """
        if (older := self._connections.get(client_id)) is not None:
            older.close()
        older = self._away.pop(client_id, older)
        self._connections[client_id] = connection
        return older if older is not None and older.is_lasting and connection.is_lasting else None

    def leave(self, client_id: str, connection: Connection) -> None:
        if self._connections.get(client_id) is connection:
            del self._connections[client_id]
            if connection.is_lasting:
                self._away[client_id] = connection

    def number(self, message: Publish) -> int | None:
        """The arrival number of a new message of the load; None for a message of the readiness proof."""
        if message.topic.startswith(PROOF_PREFIX):
            return None
        self.arrivals += 1
        for connection in self._connections.values():
            connection.look()
        return self.arrivals

    def will(self, will: Will, *, is_due: bool) -> None:
        """What becomes of a client's will when its connection ends: due without DISCONNECT, and not due after one."""
        if is_due:
            self._due_wills += 1
            times = 0 if self._due_wills in self.script.will_lost else 1 + (self._due_wills in self.script.will_twice)
        else:
            self._idle_wills += 1
            times = int(self._idle_wills in self.script.will_anyway)
        for _ in range(times):
            self.route(None, Publish(will.topic, will.payload, will.qos, 1 if will.qos else None, retain=will.retain))

    def stall(self, delay_ms: float) -> None:
        """Stops reading from all publishers for a while."""
        publishers = [each for each in self._connections.values() if not each.is_subscriber]
        for each in publishers:
            each.stall()
        asyncio.get_running_loop().call_later(delay_ms / 1e3, _resume, publishers)

    def route(self, number: int | None, message: Publish) -> None:
        """Delivers a message with the faults that its number has."""
        if number is None:
            self._deliver(None, message)
            return
        for each, ready in self._order.next(number, message):
            if each in self.script.drop:
                continue
            if delay_s := self._delay(each) + self._serve():
                asyncio.get_running_loop().call_later(delay_s, self._deliver, each, ready)
            else:
                self._deliver(each, ready)

    def _delay(self, number: int) -> float:
        delay = self.script.delay_ms
        return (delay.get(number, 0.0) if isinstance(delay, Mapping) else delay) / 1e3

    def _serve(self) -> float:
        """In how many seconds a message is through that comes now; those before it come first."""
        if not self.script.service_ms:
            return 0.0
        now_s = asyncio.get_running_loop().time()
        self._free_s = max(self._free_s, now_s) + self.script.service_ms / 1e3
        return self._free_s - now_s

    def retained(self, topic_filter: str) -> list[Publish]:
        """What a new subscription gets at once; a shared one gets nothing (MQTT 5.0 section 4.8.2)."""
        return [message for topic, message in self._retained.items() if topic_matches(topic_filter, topic)]

    def _retain(self, message: Publish) -> None:
        """Keeps the last message of a topic; an empty one clears it (section 3.3.1.3)."""
        if message.retain and message.payload:
            self._retained[message.topic] = message
        elif message.retain:
            self._retained.pop(message.topic, None)

    def _deliver(self, number: int | None, message: Publish) -> None:
        if number is not None and number in self.script.truncate:
            message = replace(message, payload=message.payload[: self.script.truncate[number]])
        self._retain(message)
        groups: dict[str, list[Connection]] = {}
        for connection in [*self._connections.values(), *self._away.values()]:
            for each in connection.shared_filters(message.topic):
                groups.setdefault(each, []).append(connection)
            granted = connection.granted(message.topic)
            for qos in granted if self.script.per_filter else sorted(granted)[-1:]:
                connection.deliver(message, qos=min(message.qos, qos), number=number)
            if not granted and number in self.script.misroute and connection.is_subscriber:
                connection.deliver(message, qos=min(message.qos, connection.highest_qos()))
        for each, members in groups.items():
            turn = self._turns.get(each, 0)
            self._turns[each] = turn + 1
            chosen = members[turn % len(members)]
            chosen.deliver(message, qos=min(message.qos, chosen.granted_shared(each)), number=number)
        if number in self.script.foreign:
            self._deliver(None, Publish(message.topic, _FOREIGN, message.qos, message.packet_id))


def _resume(publishers: list[Connection]) -> None:
    for each in publishers:
        each.resume()


async def serve(script: Script, *, host: str, port: int, notes: Notes | None = None) -> None:
    """Serves until SIGTERM or SIGINT."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    broker = ScriptedBroker(script, notes)
    server = await loop.create_server(lambda: Connection(broker), host, port)
    print(f"scripted broker on {host}:{port}", flush=True)
    await stop.wait()
    server.close()
    print(f"stopped after {broker.arrivals} messages of the load", flush=True)


def _notes(path: Path | None, stack: contextlib.ExitStack) -> Notes:
    """Behind those of before, where it was killed and starts again."""
    return Book(stack.enter_context(path.open("a", encoding="utf-8", newline=""))) if path else Nothing()


def main(arguments: list[str]) -> int:
    """The broker as a program; its exit code."""
    if len(arguments) != 1:
        print("usage: python -m brokerlab.load.scripted SCRIPT.json", file=sys.stderr)
        return ExitCode.BAD_INPUT
    try:
        content = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
        script = script_from_json(content.get("faults", {}))
        with contextlib.ExitStack() as stack:
            name = content.get("deeds")  # beside the script
            notes = _notes(Path(arguments[0]).with_name(name) if name else None, stack)
            asyncio.run(serve(script, host=content["host"], port=content["port"], notes=notes))
    except (LabError, OSError, ValueError, KeyError) as problem:
        print(f"scripted broker: {problem}", file=sys.stderr)
        return ExitCode.BAD_INPUT
    return ExitCode.VALID


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
