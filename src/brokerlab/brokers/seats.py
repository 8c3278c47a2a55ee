"""Seats of nodes: of one that is alone, and what the nodes of an ensemble keep apart."""

from dataclasses import replace
from pathlib import Path

from brokerlab.brokers.base import Seat, Security
from brokerlab.brokers.port import free_port


def alone(folder: Path, host: str, port: int, *, spare: int = 1) -> Seat:
    """The seat of a node that has no others beside it, with so many spare ports."""
    ports: list[int] = []
    while len(ports) < spare:
        if (found := free_port(host)) not in (port, *ports):
            ports.append(found)
    return Seat(0, host, port, folder.absolute(), tuple(ports))


def of_seat(security: Security, seat: Seat) -> Security:
    """With a private folder of the seat's own, as files of several nodes would have one name."""
    return security if security.folder is None else replace(security, folder=security.folder / f"node-{seat.index}")
