"""The known name that a misspelt name was probably meant to be."""

from collections.abc import Iterable
from difflib import get_close_matches

_LIKENESS = 0.6  # of difflib's ratio; below it a proposal confuses more often than it helps


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name closest to `name`, or None when none is close; case is looked past."""
    by_folded = {candidate.casefold(): candidate for candidate in known}
    folded = name.strip().casefold()
    if folded in by_folded:
        return by_folded[folded]
    close = get_close_matches(folded, list(by_folded), n=1, cutoff=_LIKENESS)
    return by_folded[close[0]] if close else None


def listed(names: Iterable[str]) -> str:
    """The names as a phrase: "a, b and c"."""
    *others, last = list(names) or ["none"]
    return f"{', '.join(others)} and {last}" if others else last
