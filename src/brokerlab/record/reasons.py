"""The reasons of a verdict for people to read: of many that say the same of one link or client after the other, one."""

from collections.abc import Iterable


def in_short(reasons: Iterable[str]) -> str:
    """The first reason of each kind, and how many more of it there are; the manifest has them all.

    What stands before the first colon is the kind.
    """
    kinds: dict[str, list[str]] = {}
    for reason in reasons:
        kinds.setdefault(reason.partition(": ")[0], []).append(reason)
    return "; ".join(first + (f", and {len(more)} more like it" if more else "") for first, *more in kinds.values())
