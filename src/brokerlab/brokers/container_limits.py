"""The limits of a container: what is asked of the engine, and what it tells of their effect."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from brokerlab.brokers.limits import Effect
from brokerlab.study.limit_values import Limits

if TYPE_CHECKING:
    from docker.models.containers import Container

_NANO = 1_000_000_000


class EngineLimits:
    """As limits.Cage for a process of ours."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.effect = Effect()

    def arguments(self) -> dict[str, Any]:
        """For the call that makes the container."""
        limits, asked = self.limits, dict[str, Any]()
        if limits.cpus is not None:
            asked["nano_cpus"] = round(limits.cpus * _NANO)
        if limits.cores is not None:
            asked["cpuset_cpus"] = ",".join(map(str, limits.cores))
        if limits.memory_bytes is not None:
            asked["mem_limit"] = limits.memory_bytes
            if limits.swap_bytes is not None:
                asked["memswap_limit"] = limits.memory_bytes + limits.swap_bytes
        return asked

    def watch(self, container: "Container") -> None:
        """Reads what they did so far; an engine tells it of a running container only."""
        told = container.stats(stream=False)
        throttling = told.get("cpu_stats", {}).get("throttling_data", {})
        has_quota = self.limits.cpus is not None
        memory = told.get("memory_stats", {})
        self.effect = Effect(
            periods=throttling.get("periods") if has_quota else None,
            throttled_periods=throttling.get("throttled_periods") if has_quota else None,
            throttled_s=throttling["throttled_time"] / 1e9 if has_quota and "throttled_time" in throttling else None,
            memory_peak_bytes=memory.get("max_usage"),
        )

    def section(self) -> dict[str, object]:
        """For the manifest: what was asked, how it was set, and what it did."""
        return {
            "asked": asdict(self.limits),
            "set": self.arguments(),
            "affinity": None,
            "effect": asdict(self.effect),
        }
