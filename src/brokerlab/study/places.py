"""Where something of a run lives: an address, the network namespace that has it, and the process group of its site."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """Of a broker's node, or of the clients of a site."""

    name: str  # for people, such as "site 2" or "node 0"
    address: str  # that it is reached at
    namespace: str | None = None  # None: that of brokerlab itself
    site: int = 0
    group: int | None = None  # that its processes join; None: each has a session of its own


LOOPBACK = Place("this machine", "127.0.0.1")
