"""The wills of a run: a client that hears them, and the account of what came, which is no part of the load's.

After the drain, in a phase of its own:

    closed         a share of the publishers, chosen by the run's seed: FIN without DISCONNECT; each owes one will
    disconnected   all others; none of them owes one

A late subscriber then looks at what the broker retained of them.
"""

import math
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Self

from brokerlab.errors import RunError
from brokerlab.lab.crossing import Door
from brokerlab.load.packets import Publish
from brokerlab.load.sessionlog import SessionLog
from brokerlab.load.spec import Client, Left
from brokerlab.load.wills import will_of
from brokerlab.record.directory import RunDirectory
from brokerlab.record.parts import PartWriter
from brokerlab.record.schemas import SESSIONS
from brokerlab.stats.histogram import rank
from brokerlab.study.seeds import derived_seed
from brokerlab.study.values import Workload
from brokerlab.study.will_values import Wills
from brokerlab.study.wills import WILL_PREFIX

NODE = "wills/0"
FILTER = f"{WILL_PREFIX}#"
_LISTEN_S = 0.2
_LEAST_AFTER_DELAY_S = 5.0  # brokers look for delayed wills once a second or so
_QUIET_S, _QUIET_AFTER_DELAY_S = 0.25, 1.5  # for what should not come
_HIGHEST_QOS = 2


@dataclass(frozen=True, slots=True)
class Arrival:
    message: Publish
    at_ns: int


@dataclass(slots=True)
class Account:
    """What became of the wills; everything but the first two breaks what MQTT promises."""

    expected: int = 0
    latencies_ns: list[int] = field(default_factory=list)  # of those that came in time: since the close and the delay
    arrived: int = 0
    missing: int = 0
    duplicated: int = 0
    unexpected: int = 0  # of a publisher that disconnected
    early: int = 0  # before the close and the delay
    wrong_payload: int = 0
    wrong_qos: int = 0
    wrong_retain: int = 0  # a live message with the flag, which is for those that come later
    not_retained: int = 0
    retained: int = 0  # though it should not be
    foreign: int = 0  # of nobody that we closed or disconnected, such as one whose connection the broker ended


def chosen(publishers: Sequence[Client], wills: Wills, *, seed: int) -> tuple[int, ...]:
    """The publishers that are closed without a word: at least one."""
    count = max(1, math.floor(len(publishers) * wills.share_percent / 100))
    mixed = sorted(publishers, key=lambda each: derived_seed(seed, "will", each.number))
    return tuple(sorted(each.number for each in mixed[:count]))


def account(
    arrivals: Sequence[Arrival], retained: Sequence[Publish], left: Left, publishers: Sequence[Client],
    workload: Workload, *, granted_qos: int, log: SessionLog, ended_ns: int,
) -> Account:  # fmt: skip
    """Holds what came against what was owed; each is an event in the log."""
    wills = workload.will or Wills()
    closed, disconnected = dict(left.closed), set(left.disconnected)
    by_topic = {each.will: each for each in publishers}
    found, seen = Account(expected=len(closed)), set[int]()

    def broken(what: str, client: Client, at_ns: int) -> None:
        setattr(found, what, getattr(found, what) + 1)
        log.add(client, f"will failed: {what.replace('_', ' ')}", at_ns=at_ns)

    for arrival in arrivals:
        message, client = arrival.message, by_topic.get(arrival.message.topic)
        if client is None or client.number not in closed:
            if client is not None and client.number in disconnected:
                broken("unexpected", client, arrival.at_ns)
            else:
                found.foreign += 1
            continue
        if client.number in seen:
            broken("duplicated", client, arrival.at_ns)
            continue
        seen.add(client.number)
        found.arrived += 1
        due_ns = closed[client.number] + wills.delay_s * 1_000_000_000
        if arrival.at_ns < due_ns:
            broken("early", client, arrival.at_ns)
        else:
            found.latencies_ns.append(arrival.at_ns - due_ns)
            log.add(client, "will", began_ns=due_ns, at_ns=arrival.at_ns)
        for what in _wrong(message, client, workload, granted_qos=granted_qos):
            broken(what, client, arrival.at_ns)
    kept = {message.topic for message in retained}
    for client in publishers:
        if client.number in closed and client.number not in seen:
            broken("missing", client, ended_ns)
        if wills.retain and client.number in seen and client.will not in kept:
            broken("not_retained", client, ended_ns)
        if client.will in kept and not (wills.retain and client.number in closed):
            broken("retained", client, ended_ns)
    return found


def _wrong(message: Publish, client: Client, workload: Workload, *, granted_qos: int) -> list[str]:
    asked = will_of(client, workload)
    wrong = {
        "wrong_payload": asked is not None and message.payload != asked.payload,
        "wrong_qos": asked is not None and message.qos != min(asked.qos, granted_qos),
        "wrong_retain": message.retain,
    }
    return [what for what, is_so in wrong.items() if is_so]


def wills_section(found: Account, left: Left, wills: Wills, *, granted_qos: int) -> dict[str, object]:
    """For the manifest."""
    ascending = sorted(found.latencies_ns)
    shares = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    names = [name for name in Account.__slots__ if name != "latencies_ns"]
    return {
        "closed_by": "FIN without DISCONNECT",
        "disconnected": len(left.disconnected),
        "granted_qos": granted_qos,
        "delay_s": wills.delay_s,
        **{name: getattr(found, name) for name in names},
        "latency_ms": {
            name: ascending[rank(len(ascending), quantile=share) - 1] / 1e6 if ascending else None
            for name, share in shares.items()
        },
    }


class WillWatch:
    """A client of the lab that hears wills from before the first publisher connects; does nothing without them."""

    def __init__(self, workload: Workload, *, door: Door, run: RunDirectory) -> None:
        self._workload, self._run = workload, run
        self._connect = partial(door.open, protocol=workload.protocol)
        self._arrivals: list[Arrival] = []
        self.wiped: tuple[int, ...] = ()  # the QoS of each message that had the broker forget a retained one
        self._failure = ""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="wills", daemon=True)

    def __enter__(self) -> Self:
        if self._workload.will is not None:
            self._listener = self._connect()
            self._granted_qos = self._listener.subscribe(self._workload.topics.prefix + FILTER, _HIGHEST_QOS)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._workload.will is not None:
            self._over.set()
            self._thread.join()
            self._listener.disconnect()

    def collect(
        self, leave: Callable[[Sequence[int]], Left], publishers: Sequence[Client], *, seed: int, patience_s: float
    ) -> dict[str, object]:
        """Has the publishers leave and waits for their wills; the section of the manifest."""
        wills = self._workload.will or Wills()
        left = leave(chosen(publishers, wills, seed=seed))
        owed = {each.will for each in publishers if each.number in dict(left.closed)}
        last_ns = max((at_ns for _, at_ns in left.closed), default=time.monotonic_ns())
        if wills.delay_s:
            patience_s = wills.delay_s + max(patience_s, _LEAST_AFTER_DELAY_S)
        self._settle(owed, last_ns + int(patience_s * 1e9))
        time.sleep(_QUIET_AFTER_DELAY_S if wills.delay_s else _QUIET_S)
        arrivals = list(self._arrivals)
        retained = self._retained()
        self.wiped += (0,) * left.wiped
        if self._failure:
            raise RunError(f"the broker ended the connection of the client that hears wills: {self._failure}")
        writer = PartWriter(self._run.raw("sessions"), NODE.replace("/", "-"), SESSIONS)
        log = SessionLog(NODE, writer.write)
        found = account(
            arrivals, retained, left, publishers, self._workload,
            granted_qos=self._granted_qos, log=log, ended_ns=time.monotonic_ns(),
        )  # fmt: skip
        log.flush()
        writer.close()
        return wills_section(found, left, wills, granted_qos=self._granted_qos)

    def _settle(self, owed: set[str], deadline_ns: int) -> None:
        """Waits until every will that is owed came, or time is up."""
        place, missing = 0, set(owed)
        while missing and time.monotonic_ns() < deadline_ns and not self._failure:
            time.sleep(0.01)
            fresh = self._arrivals[place:]
            place += len(fresh)
            missing -= {each.message.topic for each in fresh}

    def _retained(self) -> list[Publish]:
        """What a late subscriber gets; afterwards the broker has forgotten it, so that the next run finds nothing."""
        found: list[Publish] = []
        with self._connect() as late:
            late.subscribe(self._workload.topics.prefix + FILTER, _HIGHEST_QOS)
            while (message := late.receive(timeout_s=_QUIET_S)) is not None:
                found.append(message)
            qos = min(1, self._granted_qos)  # amqtt does not count all that comes at QoS 0 right before a DISCONNECT
            for topic in sorted({message.topic for message in found}):
                late.publish(topic, qos=qos, retain=True)
                self.wiped += (qos,)
        return found

    def _listen(self) -> None:
        try:
            while not self._over.is_set():
                if (message := self._listener.receive(timeout_s=_LISTEN_S)) is not None:
                    self._arrivals.append(Arrival(message, self._listener.read_ns))
        except RunError as problem:
            self._failure = problem.message
