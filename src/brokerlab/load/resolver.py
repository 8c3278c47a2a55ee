"""Which reader of identities a workload needs."""

from typing import Protocol

from brokerlab.load.identity import own_resolver
from brokerlab.load.replay import record_resolver
from brokerlab.load.wire import Bytes, Longs
from brokerlab.study.values import Workload


class Resolver(Protocol):
    """Completes the rows of a walk with the identities that the walk does not read itself."""

    def expected(self) -> Longs:
        """What a subscriber expects before its first message."""
        ...

    def resolve(self, buffer: Bytes, level: int, rows: Longs, row: int, until: int, expected: Longs) -> None: ...


def resolver_of(workload: Workload) -> Resolver | None:
    """None where payloads begin with the full identity, which the walk reads itself."""
    if (replay := workload.payload.replay) is not None:
        return record_resolver(workload, replay)
    return own_resolver(workload)
