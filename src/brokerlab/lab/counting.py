"""Reads the broker's own counters while a run goes on, to be held against ours (F-26)."""

import contextlib
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import pyarrow as pa

from brokerlab.brokers.base import Counter
from brokerlab.errors import RunError
from brokerlab.load.client import Client, Login
from brokerlab.record.directory import RunDirectory
from brokerlab.record.parts import PartWriter
from brokerlab.record.schemas import COUNTERS

NODE = "broker/0"
_LISTEN_S = 0.2
# Mosquitto tells a counter once a second (our sys_interval), and only when it changed.
PATIENCE_S = 3.0


class CounterWatch:
    """A client beside the load that subscribes to the counters' topics; does nothing where there are none."""

    def __init__(
        self, counters: Sequence[Counter], *, host: str, port: int, run: RunDirectory, login: Login | None = None
    ) -> None:
        self._counters, self._host, self._port, self._run = tuple(counters), host, port, run
        self._login = login
        self._rows: list[dict[str, object]] = []
        self._values: dict[str, float] = {}
        self._failure = ""
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="counters", daemon=True)

    def __enter__(self) -> Self:
        if self._counters:
            self._client = Client(self._host, self._port, login=self._login)
            for counter in self._counters:
                self._client.subscribe(counter.topic, 0)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._counters:
            return
        self._over.set()
        self._thread.join()
        self._client.disconnect()
        writer = PartWriter(self._run.raw("counters"), "broker-0", COUNTERS)
        if self._rows:
            writer.write(pa.RecordBatch.from_pylist(self._rows, schema=COUNTERS))
        writer.close()

    def settle(self, expected: float, topic: str) -> float | None:
        """Waits until the counter says `expected` or time is up; what it says then."""
        deadline = time.monotonic() + PATIENCE_S
        while self._values.get(topic) != expected and time.monotonic() < deadline and not self._failure:
            time.sleep(0.02)
        return self.value(topic)

    def value(self, topic: str) -> float | None:
        """What the broker said last of a counter; None if it never spoke."""
        return self._values.get(topic)

    def _listen(self) -> None:
        try:
            while not self._over.is_set():
                self._take()
        except RunError as problem:
            self._failure = problem.message  # the broker is gone: the run's own clients say so too

    def _take(self) -> None:
        message = self._client.receive(timeout_s=_LISTEN_S)
        if message is None:
            return
        with contextlib.suppress(ValueError):  # a counter that is not a number is not a counter
            value = float(message.payload)
            self._values[message.topic] = value
            self._rows.append({"node": NODE, "name": message.topic, "at_ns": time.monotonic_ns(), "value": value})
