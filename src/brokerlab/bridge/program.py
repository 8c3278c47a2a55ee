"""The bridge at work: one loop over all connections of all routes, until it is told to stop."""

import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import FrameType

import numpy as np

from brokerlab.bridge.counters import Counters
from brokerlab.bridge.crossing import Crossing
from brokerlab.bridge.gathering import Gathering
from brokerlab.bridge.hands import Hand
from brokerlab.bridge.inlet import Inlet
from brokerlab.bridge.joint import JOINED
from brokerlab.bridge.lane import Lane
from brokerlab.bridge.link import Link, Switchboard
from brokerlab.bridge.log import Log, Subscribed, open_log, state_folder
from brokerlab.bridge.telling import told_counters
from brokerlab.bridge.values import Bridge, Broker, Route
from brokerlab.bridge.walks import Bytes, Memory
from brokerlab.errors import UserError
from brokerlab.load.alarm import now_ns
from brokerlab.load.packets import encode_length
from brokerlab.load.properties import USER_PROPERTY, encode_properties

MARK = "brokerlab-bridge"  # a user property: the id of a broker where the message was
_LONGEST_WAIT_S = 1.0
_DRAIN_S = 10.0  # after it is told to stop, at the longest
_HEARING_S = 2.0  # for a broker to read our goodbye
Say = Callable[[str], None]


def mark_of(broker: Broker) -> Bytes:
    """The property that says that a message was at this broker, in its bytes."""
    block = encode_properties(((USER_PROPERTY, (MARK, broker.id)),), encode_length)
    return np.frombuffer(bytearray(block), dtype=np.uint8)


@dataclass(slots=True)
class _Stop:
    """Whether somebody asked for the end; a descriptor tells the loop of it at once."""

    descriptor: int
    is_asked: bool = False

    def ask(self, _number: int, _frame: FrameType | None) -> None:
        if self.is_asked:
            raise KeyboardInterrupt  # twice: without waiting for anything
        self.is_asked = True
        os.eventfd_write(self.descriptor, 1)


@contextmanager
def _stopping() -> Iterator[_Stop]:
    stop = _Stop(os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK))
    before = {number: signal.signal(number, stop.ask) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(stop.descriptor)


@dataclass(slots=True)
class Program:
    bridge: Bridge
    say: Say  # what happens, a line each
    announce: Say  # that all is joined
    board: Switchboard = field(default_factory=Switchboard)
    crossings: list[Crossing] = field(default_factory=list)
    is_joined: bool = False
    _hands: dict[int, tuple[Crossing, Hand]] = field(default_factory=dict)
    _was_joined: bool = False
    _said: dict[str, str] = field(default_factory=dict)
    _final: str = ""

    def run(self, *, within_s: float | None = None) -> list[Counters]:
        """Passes messages until SIGTERM or Ctrl-C; UserError where a broker does not let us in at the start."""
        self._reveal_passwords()
        with ExitStack() as stack:
            hands = self._hire(stack)
            stack.enter_context(state_folder(self.bridge))
            stack.enter_context(self.board.epoll)
            self._open(stack, hands)
            counters = [crossing.counters for crossing in self.crossings]
            tell = stack.enter_context(told_counters(self.bridge.metrics, counters))
            for crossing in self.crossings:
                crossing.warm()
            with _stopping() as stop:
                self._loop(stop, tell, within_s=within_s)
            return counters

    def _reveal_passwords(self) -> None:
        for broker in self.bridge.brokers.values():
            if broker.password is not None:
                broker.password.reveal()

    # -- making it ------------------------------------------------------------------------------------------------

    def _hire(self, stack: ExitStack) -> dict[str, list[Hand]]:
        """The processes that transform, of routes with several workers; the first of all, so that they hold nothing."""
        everyone: list[Hand] = []
        hands: dict[str, list[Hand]] = {}
        for route in self.bridge.routes:
            for _ in range(route.workers if route.steps and route.workers > 1 else 0):
                hand = Hand(route.steps, everyone)
                stack.callback(hand.close)
                everyone.append(hand)
                hands.setdefault(route.name, []).append(hand)
        return hands

    def _open(self, stack: ExitStack, hands: dict[str, list[Hand]]) -> None:
        logs: dict[str, Log] = {}
        for route in self.bridge.routes:
            needs_memory = self.bridge.brokers[route.source].level < 5 and any(
                each.echo == route.name for each in self.bridge.routes
            )
            logs[route.name] = open_log(self.bridge, route, has_memory=needs_memory)
            stack.callback(logs[route.name].close)
        nothing = Memory(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int32))
        for route in self.bridge.routes:
            memory = nothing if route.echo is None else logs[route.echo].memory
            self.crossings.append(self._crossing(route, logs[route.name], memory, hands.get(route.name, [])))

    def _crossing(self, route: Route, log: Log, memory: Memory, hands: list[Hand]) -> Crossing:
        source, target = self.bridge.brokers[route.source], self.bridge.brokers[route.target]
        crossing = Crossing(route, log, Counters(route.name), hands, told=self._told, joined=self._joined)
        for hand in hands:
            self.board.epoll.register(hand.fileno(), select.EPOLLIN)
            self._hands[hand.fileno()] = (crossing, hand)
        link = self._link(source, f"{self.bridge.name}-{route.name}-in", keeps_session=route.qos > 0, route=route)
        kept = Subscribed(self.bridge.state / f"{route.name}.filters.json")
        crossing.inlet = Inlet(link, route, log, kept, crossing.counters, crossing, mark=mark_of(target), now_s=_now_s)
        link.open()
        for number in range(route.workers):
            name = f"{self.bridge.name}-{route.name}-out{number}"
            keeps = route.qos == 2 or (route.qos > 0 and route.is_lasting)
            lane = Lane(
                number, self._link(target, name, keeps_session=keeps, route=route), route, log, crossing.counters,
                crossing, mark=mark_of(source), memory=memory, now_s=_now_s,
            )  # fmt: skip
            crossing.lanes.append(lane)
            if route.is_lasting:
                lane.link.open()
        return crossing

    def _link(self, broker: Broker, client_id: str, *, keeps_session: bool, route: Route) -> Link:
        return Link(broker, client_id, self.board, keeps_session=keeps_session, receive_maximum=route.inflight)

    # -- what is told ---------------------------------------------------------------------------------------------

    def _told(self, link: Link, reason: str, is_final: bool) -> None:
        """Says it once, until something else happens to the connection."""
        text = f"{link.broker.name} ({link.broker.address}): {reason}"
        if is_final and not self._was_joined:
            self._final = self._final or text
        elif self._said.get(link.client_id) != text:
            self._said[link.client_id] = text
            self.say(f"bridge: {text}; {'trying again' if not link.is_open else 'going on'}")
        self._joined()

    def _joined(self) -> None:
        is_joined = all(crossing.is_joined for crossing in self.crossings)
        if is_joined and not self.is_joined:
            self._said.clear()
            self._was_joined = True
            self.announce(JOINED)
        self.is_joined = is_joined

    def _why_not(self, links: list[Link]) -> str:
        """What was said of those that are not open, and of whom nothing was: that they do not answer."""
        told = [
            self._said.get(link.client_id) or f"{link.broker.name} ({link.broker.address}): no answer"
            for link in links
            if not link.is_open
        ]
        return "; ".join(dict.fromkeys(told)) or "; ".join(self._said.values())

    # -- the loop -------------------------------------------------------------------------------------------------

    def _loop(self, stop: _Stop, tell: Callable[[float], float], *, within_s: float | None) -> None:
        board, gathering = self.board, Gathering(self.crossings)
        board.epoll.register(stop.descriptor, select.EPOLLIN)
        everyone = [link for crossing in self.crossings for link in _links(crossing)]
        gives_up = None if within_s is None else time.monotonic() + within_s
        ends, wake_ns = None, 0
        while ends is None or (time.monotonic() < ends and not all(each.is_idle for each in self.crossings)):
            now = now_ns()
            if pause_s := gathering.pause_s(now):
                time.sleep(pause_s)
            if now >= wake_ns or board.is_stirred:
                board.is_stirred = False
                wakes = [at for link in everyone if (at := link.tick(now)) is not None]
                wake_ns = min([now + int(tell(now / 1e9) * 1e9), *wakes])
            wait_s = 0.0 if board.is_stirred else max(0.0, min(_LONGEST_WAIT_S, (wake_ns - now) / 1e9))
            for fd, event in board.epoll.poll(wait_s):
                if (link := board.links.get(fd)) is not None:
                    link.ready(event)
                elif fd in self._hands:
                    crossing, hand = self._hands[fd]
                    crossing.done(hand)
                elif fd == stop.descriptor:
                    os.eventfd_read(fd)
            if self._final:
                raise UserError(self._final, hint="change the bridge file or the broker; nothing was passed on")
            if stop.is_asked and ends is None:
                ends = time.monotonic() + _DRAIN_S
                for crossing in self.crossings:
                    crossing.inlet.close()
            if gives_up is not None and not self._was_joined and time.monotonic() > gives_up:
                hint = "is the broker there, and its address right?"
                raise UserError(f"not joined in {within_s:g} s: {self._why_not(everyone)}", hint=hint)
        for link in everyone:
            link.push()
            link.leave(hears_out_s=_HEARING_S)


def _links(crossing: Crossing) -> list[Link]:
    return [crossing.inlet.link, *(lane.link for lane in crossing.lanes)]


def _now_s() -> int:
    return int(time.time()) & 0x7FFFFFFF
