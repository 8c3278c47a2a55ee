"""What one look at the machine gives: the rows of `brokerlab doctor`."""

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    OK = "ok"
    LIMITED = "limited"  # works, and something follows for what can be measured
    MISSING = "missing"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at."""

    name: str
    state: State
    found: str
    follows: str = ""  # what that means for a measurement
    lift: str = ""  # how to change it
    is_needed: bool = False  # nothing can be measured without it


def ok(name: str, found: str, *, is_needed: bool = False) -> Check:
    return Check(name, State.OK, found, is_needed=is_needed)


def limited(name: str, found: str, *, follows: str, lift: str) -> Check:
    return Check(name, State.LIMITED, found, follows, lift)


def missing(name: str, found: str, *, follows: str, lift: str, is_needed: bool = False) -> Check:
    return Check(name, State.MISSING, found, follows, lift, is_needed=is_needed)
