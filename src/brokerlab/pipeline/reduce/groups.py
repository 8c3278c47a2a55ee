"""Latency of one delivery worker, of all its messages and of groups of them."""

from collections.abc import Iterator, Sequence

from brokerlab.pipeline.reduce.latency import Tally, unknown_ns
from brokerlab.pipeline.reduce.ledger import FirstArrivals
from brokerlab.pipeline.reduce.raw import Bools

ALL, LOCAL, CROSSING = "all", "local", "crossing"
EARLIEST = "earliest"  # a kind: until the earliest time at which each message may have come


class Latencies:
    """Tallies by kind and group; a class of payloads is a group where the run has several.

    What stayed at one node of several and what crossed are two more; `is_crossing` is by flow.
    """

    def __init__(
        self, payload_classes: Sequence[int], *, is_crossing: Bools | None = None, has_sent_times: bool = True
    ) -> None:
        self._classes, self._is_crossing, self._has_sent_times = payload_classes, is_crossing, has_sent_times
        self._tallies: dict[tuple[str, str], Tally] = {}
        self._earliest = Tally(ends_with_arrival=False)

    def add(self, measured: FirstArrivals) -> None:
        latencies = {"intended": measured.received_ns - measured.intended_ns}
        if self._has_sent_times:
            latencies["sent"] = measured.received_ns - measured.sent_ns
        for group, members in self._groups(measured):
            for kind, ns in latencies.items():
                tally = self._tallies.setdefault((kind, group), Tally())
                tally.add(ns[members], resolution_ns=measured.resolution_ns[members])

        ns = latencies["intended"]
        resolution_ns = unknown_ns(measured.resolution_ns, of=ns)
        self._earliest.add(ns - resolution_ns, resolution_ns=resolution_ns)

    def _groups(self, measured: FirstArrivals) -> Iterator[tuple[str, Bools | slice]]:
        yield ALL, slice(None)
        for size in self._classes:
            yield f"payload {size} B", measured.payload_bytes == size
        if self._is_crossing is not None:
            crosses = self._is_crossing[measured.flow]
            yield LOCAL, ~crosses
            yield CROSSING, crosses

    def filled(self) -> Iterator[tuple[str, str, Tally]]:
        """Kind, group and tally of what arrived."""
        yield from ((kind, group, tally) for (kind, group), tally in self._tallies.items() if tally.n)
        if self._earliest.n and self._earliest.is_resolution_told:
            yield EARLIEST, ALL, self._earliest
