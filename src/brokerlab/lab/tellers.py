"""Where a broker tells its own counters: on topics, which a client of ours hears, or on a page that is asked."""

import http.client
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol
from urllib.parse import urlsplit

from brokerlab.brokers.base import Broker, Counts, CountsOnPage, Node
from brokerlab.errors import RunError
from brokerlab.load.client import Client, Login

_LISTEN_S = 0.2
_POLL_S = 1.0  # between two readings of a page: asking more often would be load
_ANSWER_S = 2.0
_MOST_BYTES = 4_000_000  # of a page


class Teller(Protocol):
    on: str  # for people: where it tells
    waits_for_change: bool  # whether what has not changed is not told again

    def open(self) -> None: ...

    def take(self) -> Mapping[str, float]:
        """What is told next, by the counters' names; nothing when it takes longer than a moment, or is no number.

        RunError when nothing can be told now.
        """
        ...

    def hurry(self) -> None:
        """Has the next reading made at once."""
        ...

    def close(self) -> None: ...


def teller_of(broker: Broker, node: Node, login: Login | None) -> Teller | None:
    """How this broker's counters are read; None if it tells none."""
    if isinstance(broker, CountsOnPage):
        return OnPage(broker.read_page, node) if node.page else None
    if isinstance(broker, Counts):
        names = [counter.name for counter in broker.counters()]
        return OnTopics(names, lambda: Client(node.host, node.port, login=login))
    return None


class OnTopics:
    """A client beside the load."""

    on = "topics"
    waits_for_change = True

    def __init__(self, names: Sequence[str], connect: Callable[[], Client]) -> None:
        self._names, self._connect = tuple(names), connect

    def open(self) -> None:
        self._client = self._connect()
        for name in self._names:
            self._client.subscribe(name, 0)

    def take(self) -> Mapping[str, float]:
        message = self._client.receive(timeout_s=_LISTEN_S)
        if message is None:
            return {}
        try:
            return {message.topic: float(message.payload)}
        except ValueError:
            return {}

    def hurry(self) -> None:
        """The broker tells when it pleases."""

    def close(self) -> None:
        self._client.disconnect()


class OnPage:
    """A page that is read once a second, with the standard library's client and no proxy between."""

    on = "page"
    waits_for_change = False

    def __init__(self, read: Callable[[str], Mapping[str, float]], node: Node) -> None:
        self._read, self._page, self._headers = read, str(node.page), dict(node.page_headers)
        self._at_once = threading.Event()
        self._due_s = 0.0

    def open(self) -> None:
        """Nothing is held open between two readings."""

    def take(self) -> Mapping[str, float]:
        self._at_once.wait(min(max(self._due_s - time.monotonic(), 0.0), _LISTEN_S))
        if not self._at_once.is_set() and time.monotonic() < self._due_s:
            return {}
        self._at_once.clear()
        self._due_s = time.monotonic() + _POLL_S
        return read_page(self._page, self._headers, self._read)

    def hurry(self) -> None:
        self._at_once.set()

    def close(self) -> None:
        """Nothing is held open between two readings."""


def read_page(
    address: str, headers: Mapping[str, str], read: Callable[[str], Mapping[str, float]]
) -> Mapping[str, float]:
    """The numbers that a page tells now; RunError when there is no such page."""
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=_ANSWER_S)
    try:
        connection.request("GET", parts.path + (f"?{parts.query}" if parts.query else ""), headers=dict(headers))
        answer = connection.getresponse()
        text = answer.read(_MOST_BYTES).decode("utf-8", "replace")
        if answer.status != http.client.OK:
            raise RunError(f"{address} answers {answer.status} {answer.reason}")
        return read(text)
    except (OSError, http.client.HTTPException) as problem:
        raise RunError(f"{address} cannot be read: {problem}") from problem
    except (ValueError, LookupError) as problem:
        raise RunError(f"{address} is not what its driver expects: {problem}") from problem
    finally:
        connection.close()
