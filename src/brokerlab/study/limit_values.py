"""The limits of a broker's node as a frozen value."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Per node; None is no limit."""

    cpus: float | None = None  # cores' worth of time
    cores: tuple[int, ...] | None = None  # that it may run on, by their numbers
    memory_bytes: int | None = None
    swap_bytes: int | None = None  # beside the memory, which must be limited too

    def __bool__(self) -> bool:
        return self != UNLIMITED


UNLIMITED = Limits()
