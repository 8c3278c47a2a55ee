"""A small broker of our own that is correct but for the faults of its script, to prove the meter with.

    python -m brokerlab.load.scripted SCRIPT.json     {"host": ..., "port": ..., "faults": {...}}

MQTT 3.1.1 with QoS 0, 1 and 2 on both legs and + and # in filters.
Left out because no proof needs it: retained messages, wills and sessions that outlive their connection.

    PUBLISH -> number it -> acknowledge -> swap -> drop, delay -> match -> duplicate -> PUBLISH
"""

import asyncio
import itertools
import json
import signal
import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from brokerlab.errors import ExitCode, LabError
from brokerlab.load.faults import Script, script_from_json
from brokerlab.load.packets import (
    ConnAck,
    Connect,
    Disconnect,
    MalformedPacketError,
    Packet,
    PingReq,
    PingResp,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    SubAck,
    Subscribe,
    UnsubAck,
    Unsubscribe,
)
from brokerlab.load.parser import Parser
from brokerlab.load.topics import PROOF_PREFIX, is_filter
from brokerlab.study.topics import topic_matches

_REFUSED = 0x80
_PACKET_IDS = range(1, 0x10000)


@dataclass(slots=True)
class _Order:
    """Puts numbered messages into the order in which they leave: the script's swaps, else as they came."""

    swap: tuple[tuple[int, int], ...]
    held: dict[int, Publish] = field(default_factory=dict)

    def next(self, number: int, message: Publish) -> list[tuple[int, Publish]]:
        """What may leave now that this message is here."""
        for first, second in self.swap:
            if first <= number <= second:
                self.held[number] = message
                return self._release(first, second) if number == second else []
        return [(number, message)]

    def _release(self, first: int, second: int) -> list[tuple[int, Publish]]:
        order = [second, *range(first + 1, second), first]
        return [(number, self.held.pop(number)) for number in order]


class ScriptedBroker:
    """Sessions, subscriptions and the faults; `Connection` speaks for one client each."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.arrivals = 0
        self._order = _Order(script.swap)
        self._connections: dict[str, Connection] = {}

    def join(self, client_id: str, connection: "Connection") -> None:
        """Takes a client in; an older connection of the same name ends (section 3.1.4)."""
        if (older := self._connections.get(client_id)) is not None:
            older.close()
        self._connections[client_id] = connection

    def leave(self, client_id: str, connection: "Connection") -> None:
        if self._connections.get(client_id) is connection:
            del self._connections[client_id]

    def number(self, message: Publish) -> int | None:
        """The arrival number of a new message of the load; None for a message of the readiness proof."""
        if message.topic.startswith(PROOF_PREFIX):
            return None
        self.arrivals += 1
        return self.arrivals

    def route(self, number: int | None, message: Publish) -> None:
        """Delivers a message with the faults that its number has."""
        if number is None:
            self._deliver(message, copies=1)
            return
        for each, ready in self._order.next(number, message):
            self._deliver_by_script(each, ready)

    def _deliver_by_script(self, number: int, message: Publish) -> None:
        if number in self.script.drop:
            return
        copies = 2 if number in self.script.duplicate else 1
        if (delay_ms := self.script.delay_ms.get(number)) is None:
            self._deliver(message, copies=copies)
        else:
            asyncio.get_running_loop().call_later(delay_ms / 1e3, self._deliver, message, copies)

    def _deliver(self, message: Publish, copies: int) -> None:
        for connection in list(self._connections.values()):
            if (granted := connection.granted_qos(message.topic)) is not None:
                connection.deliver(message, qos=min(message.qos, granted), copies=copies)


class Connection(asyncio.Protocol):
    """One client: its handshakes and its subscriptions."""

    def __init__(self, broker: ScriptedBroker) -> None:
        self._broker = broker
        self._parser = Parser()
        self._client_id: str | None = None
        self._transport: asyncio.Transport | None = None
        self._subscriptions: dict[str, int] = {}
        self._matched: dict[str, int | None] = {}  # granted QoS by topic, while the subscriptions stay
        self._unreleased: set[int] = set()  # from the client, at QoS 2: between PUBLISH and PUBREL
        self._unfinished: set[int] = set()  # to the client, at QoS 1 and 2: not acknowledged yet
        self._waiting: deque[Publish] = deque()  # for a free packet id
        self._ids: Iterator[int] = itertools.cycle(_PACKET_IDS)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, _: Exception | None) -> None:
        self._transport = None
        if self._client_id is not None:
            self._broker.leave(self._client_id, self)

    def data_received(self, data: bytes) -> None:
        try:
            packets = self._parser.feed(data)
        except MalformedPacketError as problem:
            print(f"closed {self._client_id}: {problem}", file=sys.stderr, flush=True)
            self.close()
            return
        for packet in packets:
            if self._transport is None or self._transport.is_closing():
                return
            self._take(packet)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def granted_qos(self, topic: str) -> int | None:
        """The highest QoS of the subscriptions that match; None without one. One message is delivered once."""
        if topic not in self._matched:
            granted = (qos for wanted, qos in self._subscriptions.items() if topic_matches(wanted, topic))
            self._matched[topic] = max(granted, default=None)
        return self._matched[topic]

    def deliver(self, message: Publish, *, qos: int, copies: int) -> None:
        script = self._broker.script
        first = Publish(message.topic, message.payload, qos, self._free_id() if qos else None)
        self._send_message(first)
        for _ in range(copies - 1):
            again = replace(first, dup=script.dup_flag and qos > 0)
            # DUP at QoS 1 is an honest retransmission, which keeps its packet id. At QoS 2 that would be
            # recognised by the client: only a new id breaks the promise of exactly once.
            if qos == 2 or (qos == 1 and not script.dup_flag):
                again = replace(again, packet_id=self._free_id())
            self._send_message(again)

    def _free_id(self) -> int | None:
        """The next packet id that no unfinished message has; None when all are taken."""
        if len(self._unfinished) >= len(_PACKET_IDS):
            return None
        packet_id = next(each for each in self._ids if each not in self._unfinished)
        self._unfinished.add(packet_id)
        return packet_id

    def _send_message(self, message: Publish) -> None:
        if message.qos and message.packet_id is None:
            self._waiting.append(message)
        else:
            self._send(message)

    def _finish(self, packet_id: int) -> None:
        if packet_id not in self._unfinished:
            return  # the second acknowledgement of a retransmission
        self._unfinished.remove(packet_id)
        if self._waiting:
            self._send(replace(self._waiting.popleft(), packet_id=self._free_id()))

    def _send(self, packet: Packet) -> None:
        if self._transport is not None:
            self._transport.write(packet.encode())

    def _take(self, packet: Packet) -> None:
        if (self._client_id is None) != isinstance(packet, Connect):
            self.close()  # section 3.1: CONNECT comes first, and once
            return
        match packet:
            case Publish():
                self._take_message(packet)
            case PubRel(packet_id):
                self._unreleased.discard(packet_id)
                self._send(PubComp(packet_id))
            case PubAck(packet_id) | PubComp(packet_id):
                self._finish(packet_id)
            case PubRec(packet_id):
                self._send(PubRel(packet_id))
            case Connect():
                self._connect(packet)
            case Subscribe():
                self._subscribe(packet)
            case Unsubscribe(packet_id, filters):
                for name in filters:
                    self._subscriptions.pop(name, None)
                self._matched.clear()
                self._send(UnsubAck(packet_id))
            case PingReq():
                self._send(PingResp())
            case Disconnect() | _:
                self.close()

    def _connect(self, packet: Connect) -> None:
        self._client_id = packet.client_id or f"anonymous-{id(self):x}"
        self._broker.join(self._client_id, self)
        self._send(ConnAck())

    def _subscribe(self, packet: Subscribe) -> None:
        codes = []
        for name, asked in packet.filters:
            granted = min(asked, self._broker.script.grant_qos)
            codes.append(granted if is_filter(name) else _REFUSED)
            if is_filter(name):
                self._subscriptions[name] = granted
        self._matched.clear()
        self._send(SubAck(packet.packet_id, tuple(codes)))

    def _take_message(self, message: Publish) -> None:
        script, packet_id = self._broker.script, message.packet_id
        if message.qos == 2 and packet_id in self._unreleased:
            self._send(PubRec(packet_id))
            return
        number = self._broker.number(message)
        if number in script.reject:
            self.close()
            return
        if packet_id is not None and number not in script.unacknowledged:
            self._acknowledge(message.qos, packet_id)
        self._broker.route(number, message)

    def _acknowledge(self, qos: int, packet_id: int) -> None:
        if qos == 2:
            self._unreleased.add(packet_id)
            self._send(PubRec(packet_id))
        else:
            self._send(PubAck(packet_id))


async def serve(script: Script, *, host: str, port: int) -> None:
    """Serves until SIGTERM or SIGINT."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    broker = ScriptedBroker(script)
    server = await loop.create_server(lambda: Connection(broker), host, port)
    print(f"scripted broker on {host}:{port}", flush=True)
    await stop.wait()
    server.close()
    print(f"stopped after {broker.arrivals} messages of the load", flush=True)


def main(arguments: list[str]) -> int:
    """The broker as a program; its exit code."""
    if len(arguments) != 1:
        print("usage: python -m brokerlab.load.scripted SCRIPT.json", file=sys.stderr)
        return ExitCode.BAD_INPUT
    try:
        content = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
        script = script_from_json(content.get("faults", {}))
        asyncio.run(serve(script, host=content["host"], port=content["port"]))
    except (LabError, OSError, ValueError, KeyError) as problem:
        print(f"scripted broker: {problem}", file=sys.stderr)
        return ExitCode.BAD_INPUT
    return ExitCode.VALID


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
