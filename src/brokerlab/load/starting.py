"""Publishers that begin when a message tells them (C-02): as a device does that is far away and has no order of ours.

    lab                               publishers
    Go                            ->  held: nothing is due yet
    control: {"rate_per_s": ...}  ->  the rate and how long the phases last    over MQTT, QoS 1,
    control: {"start": true}      ->  the schedule begins                      on a connection of its own
                                  <-  Began(start_ns)

The start is the time at which the worker has read the message that says so.
"""

import json
import select
from collections.abc import Callable, MutableSequence
from dataclasses import asdict, dataclass, replace

from brokerlab.errors import RunError
from brokerlab.load.alarm import now_ns
from brokerlab.load.client import Client, Login
from brokerlab.load.resting import Rest
from brokerlab.load.role import Connections, Role, Say
from brokerlab.load.sessionlog import SessionLog
from brokerlab.load.spec import Began, Connect, Drain, Go, Progress, Stock, Stopped, Subscribe, WorkerSpec
from brokerlab.study.topics import CONTROL_TOPIC

QOS = 1  # of the control messages
_WHOLE_S = 1.0  # the longest that the rest of a message may take whose beginning is here


@dataclass(frozen=True, slots=True)
class Settings:
    """The first control message: what the publishers are to do once they start."""

    rate_per_s: float  # of each publisher
    warmup_ns: int
    measure_ns: int

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    def order(self, start_ns: int, held: Go) -> Go:
        """The order that was held, as it is from the start on."""
        measure_ns = start_ns + self.warmup_ns
        return replace(
            held,
            start_ns=start_ns,
            measure_ns=measure_ns,
            end_ns=measure_ns + self.measure_ns,
            rate_per_s=self.rate_per_s,
        )


START = json.dumps({"start": True}).encode()  # the second control message


def settings_of(payload: bytes) -> Settings | None:
    """What a control message sets; None if it is the start."""
    try:
        told = json.loads(payload)
        if told == {"start": True}:
            return None
        return Settings(float(told["rate_per_s"]), int(told["warmup_ns"]), int(told["measure_ns"]))
    except (ValueError, TypeError, KeyError) as problem:
        raise RunError(f"a control message is none of ours: {payload[:80]!r}") from problem


class Starting:
    """Implements Role: plays another one, whose schedule begins when a control message says so."""

    def __init__(
        self, play: Callable[..., Role], spec: WorkerSpec, connections: Connections, log: SessionLog, say: Say,
        counts: MutableSequence[int], progress: Progress,
    ) -> None:  # fmt: skip
        self._role = play(spec, connections, log, say, counts, progress)
        self._spec, self._epoll, self._say, self._counts = spec, connections.epoll, say, counts
        self._control: Client | None = None
        self._control_fd = -1  # while it is listened to
        self._settings: Settings | None = None
        self._order: Go | None = None
        self._start_ns = self._first_ns = 0

    # -- what the lab asks for ------------------------------------------------------------------------------------

    def connect(self, order: Connect) -> None:
        """The control client comes in first, as the first publisher does, and is waited for."""
        spec, first = self._spec, self._spec.clients[0]
        login = Login(spec.entrance, first.user, first.password, first.certificate)
        self._control = Client(
            spec.host, spec.port, login=login, protocol=spec.workload.protocol, timeout_s=order.timeout_s
        )
        self._control.subscribe(spec.workload.topics.prefix + CONTROL_TOPIC, QOS, timeout_s=order.timeout_s)
        self._control_fd = self._control.fileno()
        self._epoll.register(self._control_fd, select.EPOLLIN)
        self._role.connect(order)

    def subscribe(self, order: Subscribe) -> None:
        self._role.subscribe(order)

    def go(self, order: Go) -> None:
        """Is held until the start message is here, which may be already."""
        self._order = order
        self._begin()

    def retime(self, _order: Go) -> None:
        """Nothing to be told: the times are this worker's own."""

    def drain(self, order: Drain) -> None:
        self._role.drain(order)

    def halt(self) -> None:
        self._role.halt()

    def stock(self) -> Stock:
        return self._role.stock()

    def close(self) -> Stopped:
        if self._control is not None:
            self._control.disconnect()
        return replace(self._role.close(), first_ns=self._first_ns)

    # -- what the loop calls --------------------------------------------------------------------------------------

    @property
    def gather_s(self) -> float:
        return self._role.gather_s

    @property
    def rest(self) -> Rest:
        return self._role.rest

    def tick(self, now: int) -> int | None:
        wake_ns = self._role.tick(now)
        self._note_first()
        return wake_ns

    def ready(self, fd: int, event: int) -> None:
        if fd == self._control_fd:
            self._hear()
        else:
            self._role.ready(fd, event)
            self._note_first()

    # -- the start ------------------------------------------------------------------------------------------------

    def _hear(self) -> None:
        """Takes in all control messages that are here; one that is cut is waited for, since nothing is due yet."""
        wait_s = _WHOLE_S
        while self._control is not None and (message := self._control.receive(timeout_s=wait_s)) is not None:
            if (settings := settings_of(message.payload)) is not None:
                self._settings = settings
            else:
                self._start_ns = now_ns()
                self._epoll.unregister(self._control_fd)  # nothing more is to come: it is closed at the end
                self._control_fd = -1
                self._begin()
                return
            wait_s = _WHOLE_S if self._control.has_more else 0.0

    def _begin(self) -> None:
        if not self._start_ns or self._order is None:
            return
        if self._settings is None:
            raise RunError("the start message came before the message that says how fast and how long")
        self._role.go(self._settings.order(self._start_ns, self._order))
        self._say(Began(self._start_ns))

    def _note_first(self) -> None:
        """When the first message of the schedule was handed over."""
        if not self._first_ns and self._counts[self._spec.index]:
            self._first_ns = now_ns()
