"""One client of the scripted broker: its handshakes, its subscriptions, and the faults of its connection."""

import asyncio
import itertools
import sys
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Protocol

from brokerlab.load.deeds import Notes, Taking
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
    Will,
)
from brokerlab.load.parser import Parser
from brokerlab.load.topics import PROOF_PREFIX, is_filter, own_filter
from brokerlab.study.script import MALFORMED, Script
from brokerlab.study.topics import SHARE, topic_matches

_REFUSED = 0x80
_PACKET_IDS = range(1, 0x10000)
_RESERVED = 0x01  # a flag of the fixed header that SUBACK must not have (section 2.2.2)


class Broker(Protocol):
    """What a connection needs of its broker."""

    script: Script
    notes: Notes

    def connect(self) -> int: ...  # the number of a CONNECT
    def subscribe(self) -> int: ...  # the number of a SUBSCRIBE of the load
    def join(self, client_id: str, connection: "Connection") -> "Connection | None": ...
    def leave(self, client_id: str, connection: "Connection") -> None: ...
    def number(self, message: Publish) -> int | None: ...
    def route(self, number: int | None, message: Publish) -> None: ...
    def will(self, will: Will, *, is_due: bool) -> None: ...
    def stall(self, delay_ms: float) -> None: ...
    def retained(self, topic_filter: str) -> list[Publish]: ...


class Connection(asyncio.Protocol):
    """Reads packets in their order, and writes what they and the script ask for."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._script = broker.script
        self._parser = Parser()
        self._backlog: deque[Packet] = deque()  # read, but not taken: what came with the message that stalled us
        self._is_stalled = False
        self._is_ending = False  # rejected: takes no further message
        self._client_id: str | None = None
        self._transport: asyncio.Transport | None = None
        self._subscriptions: dict[str, int] = {}
        self._matched: dict[str, list[int]] = {}  # the QoS of matching subscriptions, by topic
        # From the client, at QoS 2, by packet id: the numbers of messages between PUBLISH and PUBCOMP.
        self._unreleased: dict[int, int | None] = {}
        self._will: Will | None = None
        self._unfinished: dict[int, Publish | None] = {}  # to the client, at QoS 1 and 2: not acknowledged yet
        self._released: set[int] = set()  # of those, the ones with PUBREC: from then on PUBREL is sent again
        self._unheard: dict[int, int] = {}  # of those, the numbers of messages without a first acknowledgement
        self._taking = Taking()
        self.is_lasting = False  # whether its session outlives the connection
        self._parting: Publish | None = None  # the last message of this connection, by script
        self._is_again = False  # that message comes once too often
        self._kept: list[tuple[Publish, int, int | None]] = []  # for the time when the client is back: with QoS, number
        self._waiting: deque[Publish] = deque()  # for a free packet id
        self._ids: Iterator[int] = itertools.cycle(_PACKET_IDS)

    # -- the transport --------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, _: Exception | None) -> None:
        self._transport = None
        if self._client_id is not None:
            self._note("gone", None)
            self._broker.leave(self._client_id, self)
        if (will := self._will) is not None:  # no DISCONNECT came before the end (section 3.1.2.5)
            self._broker.will(will, is_due=True)

    def data_received(self, data: bytes) -> None:
        try:
            self._backlog.extend(self._parser.feed(data))
        except MalformedPacketError as problem:
            print(f"closed {self._client_id}: {problem}", file=sys.stderr, flush=True)
            self.close()
            return
        self._take_backlog()

    def stall(self) -> None:
        """Reads nothing more until `resume`."""
        if self._transport is not None and not self._is_stalled:
            self._is_stalled = True
            self._transport.pause_reading()

    def resume(self) -> None:
        self._is_stalled = False
        self._take_backlog()
        if self._transport is not None and not self._is_stalled:
            self._transport.resume_reading()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def _take_backlog(self) -> None:
        while self._backlog and not self._is_stalled:
            if self._transport is None or self._transport.is_closing():
                return
            self._take(self._backlog.popleft())

    def _send(self, packet: Packet) -> None:
        self._send_bytes(packet.encode())

    def _send_bytes(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def _later(self, delay_ms: float, do: Callable[..., None], *given: Any) -> None:
        if delay_ms:
            asyncio.get_running_loop().call_later(delay_ms / 1e3, do, *given)
        else:
            do(*given)

    def _note(self, deed: str, number: int | None) -> None:
        self._broker.notes.note(deed, number, self._client_id)

    def look(self) -> None:
        """Notes what its client has got meanwhile."""
        for number in self._taking.taken(self._transport):
            self._note("taken", number)

    # -- to a subscriber ------------------------------------------------------------------------------------------

    @property
    def is_subscriber(self) -> bool:
        return bool(self._subscriptions)

    def highest_qos(self) -> int:
        """Of all its subscriptions."""
        return max(self._subscriptions.values())

    def granted(self, topic: str) -> list[int]:
        """The QoS of each subscription that matches."""
        if topic not in self._matched:
            own = {name: qos for name, qos in self._subscriptions.items() if not name.startswith(SHARE)}
            self._matched[topic] = [qos for wanted, qos in own.items() if topic_matches(wanted, topic)]
        return self._matched[topic]

    def shared_filters(self, topic: str) -> list[str]:
        """The shared subscriptions that match, as they were asked for."""
        names = [name for name in self._subscriptions if name.startswith(SHARE)]
        return [name for name in names if topic_matches(own_filter(name), topic)]

    def granted_shared(self, name: str) -> int:
        return self._subscriptions[name]

    def deliver(self, message: Publish, *, qos: int, number: int | None = None, retain: bool = False) -> None:
        """Sends a message (`retain`: that waited) with the faults of its number; to who is away, when it is back."""
        if self._transport is None or self._parting is not None:
            self._kept.append((message, qos, number))
            return
        if number in self._script.malformed:
            self._send_bytes(MALFORMED[self._script.malformed_kind])
        first = Publish(message.topic, message.payload, qos, self._free_id() if qos else None, retain=retain)
        if number is not None and number in self._script.cut:
            self._note("cut", number)
            self._send_bytes(first.encode()[: self._script.cut[number]])
            self.close()
            return
        if number is not None:
            self._note("sent", number)
            if first.packet_id:
                self._unheard[first.packet_id] = number
            elif not qos:
                self._taking.add(number)
        self._send_message(first)
        if qos and number in self._script.retransmit:
            self._send_message(replace(first, dup=True))
        if number in self._script.duplicate:
            self._send_message(self._duplicate(first))
        if number in self._script.part or number in self._script.again:
            self._parting, self._is_again = first, number in self._script.again
            self._part_when_finished()

    def _part_when_finished(self) -> None:
        """Closes when everything but the last message is acknowledged."""
        if self._parting is not None and not set(self._unfinished) - {self._parting.packet_id}:
            self.close()

    def _resume(self, older: "Connection") -> None:
        """Goes on with the session of another connection: first what it did not finish, then what it kept."""
        self._subscriptions, self._ids = older._subscriptions, older._ids
        self._unreleased, self._released = older._unreleased, older._released
        for packet_id, message in older._unfinished.items():
            if message is not None and not (older._is_again and message is older._parting):
                self._unfinished[packet_id] = message
                if packet_id in older._unheard:
                    self._unheard[packet_id] = older._unheard[packet_id]
                self._send(PubRel(packet_id) if packet_id in self._released else replace(message, dup=True))
        if older._is_again and older._parting is not None:
            last = older._parting
            packet_id_ = self._free_id() if last.qos else None
            self._send_message(replace(last, dup=self._script.dup_flag and last.qos > 0, packet_id=packet_id_))
        for message, qos, number in older._kept:
            self.deliver(message, qos=qos, number=number)

    def _duplicate(self, first: Publish) -> Publish:
        """With DUP at QoS 1 it is honest, and keeps its id; at QoS 2 only a new one breaks the promise."""
        again = replace(first, dup=self._script.dup_flag and first.qos > 0)
        is_new = first.qos == 2 or (first.qos == 1 and not self._script.dup_flag)
        return replace(again, packet_id=self._free_id()) if is_new else again

    def _free_id(self) -> int | None:
        """The next packet id that no unfinished message has; None when all are taken."""
        if len(self._unfinished) >= len(_PACKET_IDS):
            return None
        packet_id = next(each for each in self._ids if each not in self._unfinished)
        self._unfinished[packet_id] = None
        return packet_id

    def _send_message(self, message: Publish) -> None:
        if message.qos and message.packet_id is None:
            self._waiting.append(message)
            return
        if message.packet_id is not None:
            self._unfinished[message.packet_id] = message
        self._send(message)

    def _finish(self, packet_id: int) -> None:
        if packet_id not in self._unfinished or self._is_last(packet_id):
            return  # the second acknowledgement of a retransmission; or too late
        del self._unfinished[packet_id]
        self._released.discard(packet_id)
        if self._waiting:
            self._send_message(replace(self._waiting.popleft(), packet_id=self._free_id()))
        self._part_when_finished()

    def _hear(self, packet_id: int) -> None:
        if (number := self._unheard.pop(packet_id, None)) is not None:
            self._note("heard", number)

    def _is_last(self, packet_id: int) -> bool:
        return self._parting is not None and self._parting.packet_id == packet_id

    # -- from any client ------------------------------------------------------------------------------------------

    def _take(self, packet: Packet) -> None:
        if (self._client_id is None) != isinstance(packet, Connect):
            self.close()  # section 3.1: CONNECT comes first, and once
            return
        match packet:
            case Publish():
                self._take_message(packet)
            case PubRel(packet_id):
                self._later(self._script.pubcomp_ms, self._release, packet_id)
            case PubAck(packet_id) | PubComp(packet_id):
                self._hear(packet_id)
                self._finish(packet_id)
            case PubRec(packet_id):
                self._hear(packet_id)
                if not self._is_last(packet_id):
                    self._released |= {packet_id} & self._unfinished.keys()
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
            case Disconnect():
                self.look()
                if self._will is not None:
                    self._broker.will(self._will, is_due=False)
                self._will = None
                self.close()
            case _:
                self.close()

    def _connect(self, packet: Connect) -> None:
        code = self._script.refuse_connection.get(self._broker.connect())
        if code is None:
            self._client_id = packet.client_id or f"anonymous-{id(self):x}"
        self._later(self._script.connack_ms, self._welcome, packet, code)

    def _welcome(self, packet: Connect, refusal: int | None) -> None:
        if self._client_id is None or self._transport is None:
            self._send(ConnAck(refusal or 0))
            self.close()
            return
        self._will = packet.will
        self.is_lasting = not packet.clean_session
        older = self._broker.join(self._client_id, self)
        self._send(ConnAck(session_present=older is not None))
        if older is not None:
            self._resume(older)

    def _subscribe(self, packet: Subscribe) -> None:
        is_proof = all(name.startswith(PROOF_PREFIX) for name, _ in packet.filters)
        count = 0 if is_proof else self._broker.subscribe()
        is_refused = count in self._script.refuse_subscription
        codes = []
        for name, asked in packet.filters:
            granted = min(asked, self._script.grant_qos)
            is_granted = is_filter(own_filter(name)) and not is_refused
            codes.append(granted if is_granted else _REFUSED)
            if is_granted:
                self._subscriptions[name] = granted
        self._matched.clear()
        answer = bytearray(SubAck(packet.packet_id, tuple(codes)).encode())
        if count in self._script.malformed_grant:
            answer[0] |= _RESERVED
        self._later(self._script.suback_ms, self._grant, packet, bytes(answer), codes)

    def _grant(self, packet: Subscribe, answer: bytes, codes: list[int]) -> None:
        self._send_bytes(answer)
        for (name, _), code in zip(packet.filters, codes, strict=True):
            for message in self._broker.retained(name) if code != _REFUSED else ():
                self.deliver(message, qos=min(message.qos, code), retain=True)

    # -- from a publisher -----------------------------------------------------------------------------------------

    def _take_message(self, message: Publish) -> None:
        packet_id = message.packet_id
        if self._is_ending:
            return
        if message.qos == 2 and packet_id in self._unreleased:
            self._later(self._script.answer_ms, self._send, PubRec(packet_id))
            return
        number = self._broker.number(message)
        if number is not None:
            self._note("came", number)
        if number in self._script.reject:
            self._is_ending = True
            self._end_when_released()
        if number in self._script.reject or number in self._script.ignore:
            return
        if packet_id is None:
            self._send_malformed(number)
        elif number not in self._script.unacknowledged:
            self._acknowledge(number, message.qos, packet_id)
        self._broker.route(number, message)
        if number is not None and number in self._script.stall_ms:
            self._broker.stall(self._script.stall_ms[number])

    def _acknowledge(self, number: int | None, qos: int, packet_id: int) -> None:
        if qos == 2:
            self._unreleased[packet_id] = number
            self._later(self._script.answer_ms, self._send, PubRec(packet_id))
        else:
            self._later(self._script.answer_ms, self._complete, PubAck(packet_id), number)

    def _release(self, packet_id: int) -> None:
        number = self._unreleased.pop(packet_id, None)
        self._complete(PubComp(packet_id), number)
        self._end_when_released()

    def _complete(self, answer: Packet, number: int | None) -> None:
        """The last word about a message."""
        self._send_malformed(number)
        if number is not None and number in self._script.cut_answer:
            self._send_bytes(answer.encode()[: self._script.cut_answer[number]])
            self.close()
            return
        if number is not None:
            self._note("answered", number)
        self._send(answer)

    def _send_malformed(self, number: int | None) -> None:
        if number in self._script.malformed_answer:
            self._send_bytes(MALFORMED[self._script.malformed_kind])

    def _end_when_released(self) -> None:
        if self._is_ending and not self._unreleased:
            self.close()
