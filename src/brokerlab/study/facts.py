"""What the study must know of the drivers; handed in, because study imports no broker."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DriverFacts:
    """What one driver can do, and why it cannot be used on this machine."""

    qos: tuple[int, ...] = (0, 1, 2)
    presets: tuple[str, ...] = ("stock",)
    options: tuple[str, ...] = ()
    check_option: Callable[[str, object], None] | None = None  # RuleError where an option cannot hold a value
    protocols: tuple[str, ...] = ("3.1.1",)
    transports: tuple[str, ...] = ("tcp",)
    has_credentials: bool = False
    has_client_certificates: bool = False
    has_permissions: bool = False
    has_shared_subscriptions: bool = False
    has_clusters: bool = False
    is_elsewhere: bool = False  # somebody else runs it
    most_nodes: int | None = None  # that its licence allows; None: any number
    reason_missing: str | None = None  # None: the broker is installed
