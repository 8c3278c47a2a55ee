"""What starts a node that a driver describes: a process of ours, or a container of the user's engine."""

from pathlib import Path

from brokerlab.brokers.base import Node
from brokerlab.brokers.container import ContainerProcess
from brokerlab.brokers.process import BrokerProcess
from brokerlab.study.limit_values import UNLIMITED, Limits

Started = BrokerProcess | ContainerProcess


def process_of(
    node: Node, *, folder: Path, limits: Limits = UNLIMITED, namespace: str | None = None
) -> Started:  # fmt: skip
    """To be used as a context manager."""
    kind = BrokerProcess if node.image is None else ContainerProcess
    return kind(node, folder=folder, limits=limits, namespace=namespace)
