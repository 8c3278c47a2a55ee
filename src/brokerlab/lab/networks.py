"""The network of a run: opened and proved before its broker starts, closed after everything else.

Loopback is a network without anything to open. In any other the lab itself works inside the clients' place, so that
its proofs and probes go the way of the load.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import pairwise

import pyarrow as pa

from brokerlab.inside import inside
from brokerlab.lab.stand import Stand, on_loopback
from brokerlab.network.capture import Captures, taps_of
from brokerlab.network.interfaces import Interfaces
from brokerlab.network.layout import ROUTER, Layout
from brokerlab.network.network import Network
from brokerlab.record.directory import RunDirectory
from brokerlab.record.manifest import Manifest
from brokerlab.record.parts import PartWriter
from brokerlab.record.schemas import INTERFACES
from brokerlab.study.places import LOOPBACK, Place
from brokerlab.study.topology import Topology, way_rtt_ms, ways

Row = dict[str, object]
LINKS = "links"  # the node of the carrier's process in the run's resources


@dataclass(frozen=True, slots=True)
class Record:
    """Where a run is written down."""

    manifest: Manifest
    directory: RunDirectory


@dataclass(frozen=True, slots=True)
class Ground:
    """What a run stands on."""

    stand: Stand
    network: Network | None = None  # None: loopback
    reasons: tuple[str, ...] = ()  # links that are not what they claim
    interfaces: Interfaces | None = None  # of the routers
    samples: list[Row] = field(default_factory=list)

    def pids(self) -> dict[str, list[int]]:
        """The process that carries frames, where one does."""
        carrier = self.network.carrier if self.network else None
        return {LINKS: [carrier.pid]} if carrier else {}

    def clients_at(self, site: int) -> Place:
        """Where clients of a site are, counted from 1."""
        return LOOPBACK if self.network is None else self.network.clients[site - 1]

    def layout(self) -> Layout | None:
        return self.network.layout if self.network else None

    def sample(self, at_ns: int) -> None:
        """Reads the counts of the routers' interfaces."""
        if self.interfaces is not None:
            self.samples.extend(self.interfaces.read(at_ns))

    def late_reasons(self) -> list[str]:
        """Why the links were not what they claim while the load was on them."""
        carrier = self.network.carrier if self.network else None
        dropped = _growth(self.samples, "tx_dropped")
        slow = [f"{dropped} frames were dropped before the links' process read them"] if carrier and dropped else []
        return [f"the links' process was the limit: {each}" for each in (carrier.was_limit() if carrier else [])] + slow

    def require_alive(self) -> None:
        if self.network and self.network.carrier:
            self.network.carrier.require_alive()


@contextmanager
def open_ground(
    topology: Topology, *, nodes: int, seed: int, record: Record, say: Callable[[str, float], None]
) -> Iterator[Ground]:
    """The network of a topology with so many nodes; what was built, measured and counted goes to the record."""
    manifest = record.manifest
    if topology.is_loopback:
        yield Ground(on_loopback(nodes))
        return
    say("network", 0)
    with Network(topology, nodes=nodes, seed=seed) as network:
        pairs, rows = network.echo_pairs(), network.measure()
        manifest.add(
            "network",
            network.section() | {"pairs": [asdict(pair) for pair in pairs], "links": [asdict(row) for row in rows]},
        )
        # One broker is far from its clients, which are on the first site; of several each has clients of its own site.
        homes = network.clients[:1] if nodes == 1 else network.clients
        stand = Stand(network.brokers, homes, costs=_costs(topology, network), ways=_links(topology, network))
        with Interfaces(network.layout.of_kind(ROUTER)) as interfaces:
            reasons = tuple(f"the network is not as claimed: {each}" for row in rows for each in row.problems)
            ground = Ground(stand, network, reasons, interfaces)
            try:
                with inside(network.clients[0].namespace):
                    yield ground
            finally:
                manifest.add("carrier", network.carrier.section() if network.carrier else None)
                _write_samples(ground.samples, record.directory)


@contextmanager
def capturing(ground: Ground, names: Sequence[str], *, ports: Sequence[int], record: Record) -> Iterator[Captures]:
    """Captures at these taps; the manifest says what was taken, also where it is nothing."""
    homes = [place.site for place in ground.stand.clients]
    captures = Captures(taps_of(ground.layout(), names, ports=ports, homes=homes), record.directory.path)
    try:
        with captures:
            yield captures
    finally:
        if names:
            record.manifest.add("captures", captures.section)


def _growth(samples: Sequence[Row], count: str) -> int:
    """How much a count of all interfaces between routers grew from the first sample to the last."""
    edges: dict[object, list[int]] = {}
    for row in samples:
        if str(row["interface"]).startswith("site"):
            edges.setdefault((row["node"], row["interface"]), []).append(int(str(row[count])))
    return sum(values[-1] - values[0] for values in edges.values())


def _write_samples(samples: Sequence[Row], directory: RunDirectory) -> None:
    if samples:
        writer = PartWriter(directory.raw("interfaces"), "samples", INTERFACES)
        writer.write(pa.RecordBatch.from_pylist(samples, schema=INTERFACES))
        writer.close()


def _links(topology: Topology, network: Network) -> dict[tuple[int, int], frozenset[str]]:
    """The links between routers that a message between each two nodes passes."""
    found = ways(topology)
    sites = [place.site for place in network.brokers]
    return {
        (one, other): frozenset(
            f"router{min(pair)}-router{max(pair)}" for pair in pairwise(found[sites[one], sites[other]].sites)
        )
        for one in range(len(sites))
        for other in range(one + 1, len(sites))
    }


def _costs(topology: Topology, network: Network) -> dict[tuple[int, int], float]:
    """The round trip between each two nodes, by their numbers: lower first."""
    found = ways(topology)
    sites = [place.site for place in network.brokers]
    return {
        (one, other): way_rtt_ms(topology, found[sites[one], sites[other]])
        for one in range(len(sites))
        for other in range(one + 1, len(sites))
    }
