"""The network of a run: opened and proved before its broker starts, closed after everything else.

Loopback is a network without anything to open. In any other the lab itself works inside the clients' place, so that
its proofs and probes go the way of the load.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from brokerlab.inside import inside
from brokerlab.lab.stand import Stand, on_loopback
from brokerlab.network.network import Network
from brokerlab.record.manifest import Manifest
from brokerlab.study.topology import Topology, way_rtt_ms, ways

LINKS = "links"  # the node of the carrier's process in the run's resources


@dataclass(frozen=True, slots=True)
class Ground:
    """What a run stands on."""

    stand: Stand
    network: Network | None = None  # None: loopback
    reasons: tuple[str, ...] = ()  # links that are not what they claim

    def pids(self) -> dict[str, list[int]]:
        """The process that carries frames, where one does."""
        carrier = self.network.carrier if self.network else None
        return {LINKS: [carrier.pid]} if carrier else {}

    def require_alive(self) -> None:
        if self.network and self.network.carrier:
            self.network.carrier.require_alive()


@contextmanager
def open_ground(
    topology: Topology, *, nodes: int, seed: int, manifest: Manifest, say: Callable[[str, float], None]
) -> Iterator[Ground]:
    """The network of a topology with so many nodes; the manifest gets what was built and what was measured."""
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
        stand = Stand(network.brokers, network.clients, costs=_costs(topology, network))
        try:
            with inside(network.clients[0].namespace):
                yield Ground(stand, network, tuple(_reasons([row.problems for row in rows])))
        finally:
            manifest.add("carrier", network.carrier.section() if network.carrier else None)


def _costs(topology: Topology, network: Network) -> dict[tuple[int, int], float]:
    """The round trip between each two nodes, by their numbers: lower first."""
    found = ways(topology)
    sites = [place.site for place in network.brokers]
    return {
        (one, other): way_rtt_ms(topology, found[sites[one], sites[other]])
        for one in range(len(sites))
        for other in range(one + 1, len(sites))
    }


def _reasons(problems: Sequence[tuple[str, ...]]) -> list[str]:
    return [f"the network is not as claimed: {each}" for row in problems for each in row]
