"""Readers of the single values of a study file that are no factors: each returns a value or breaks a rule."""

import re

from brokerlab.study import names, quantity
from brokerlab.study.factor import read_whole
from brokerlab.study.problems import RuleError, check_name
from brokerlab.study.values import Arrivals

FORMAT_VERSION = 1  # of the study file

_LONGEST_PHASE_S = 24 * 3600.0
_LONGEST_STORE_S = 366 * 24 * 3600.0
_MOST_REPETITIONS = 1000
_LARGEST_SEED = 2**53 - 1  # kept exactly by every reader of JSON
_PUBLISHED = re.compile(r"^\d{3}/[a-z]+\d*$")
_STUDY_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def read_version(written: object) -> int:
    """The format version; file.py has refused a newer one before this is asked."""
    if isinstance(written, bool) or not isinstance(written, int) or written != FORMAT_VERSION:
        raise RuleError(f"must be {FORMAT_VERSION}, the version of the study format")
    return FORMAT_VERSION


def read_study_name(written: object) -> str:
    """The name becomes a directory: no separators, no leading dot, nothing that a shell would change."""
    if not isinstance(written, str):
        raise RuleError("must be text: write it in quotes")
    if not _STUDY_NAME.fullmatch(written):
        proposal = re.sub(r"[^A-Za-z0-9._-]+", "-", written).strip("-._")[:100]
        rule = "a study's name is 1 to 100 letters, digits, '.', '-' and '_', and begins with a letter or a digit"
        raise RuleError(rule, nearest_valid=proposal or None)
    return written


def read_text(written: object) -> str:
    if not isinstance(written, str) or not written.strip():
        raise RuleError("must be a text of at least one word")
    return written


def read_rank(written: object) -> str:
    return check_name("metric to rank by", written, known=names.RANKS)


def read_metric(written: object) -> str:
    return check_name("metric", written, known=names.METRICS, later=names.METRICS_LATER)


def read_arrivals(written: object) -> Arrivals:
    known = [arrivals.value for arrivals in Arrivals]
    return Arrivals(check_name("kind of arrivals", written, known=known, later=names.ARRIVALS_LATER))


def read_jitter_percent(written: object) -> float:
    """A share of the interval; beyond half of it messages would overtake each other."""
    jitter_percent = quantity.read_percent(written)
    if not 0 < jitter_percent <= 50:
        raise RuleError("must be above 0 % and at most 50 % of the interval, which keeps the messages in order")
    return jitter_percent


def read_precision_percent(written: object) -> float:
    precision_percent = quantity.read_percent(written)
    if not 1 <= precision_percent <= 100:
        raise RuleError("must be from 1 % to 100 % of the rate")
    return precision_percent


def read_store_s(written: object) -> float:
    store_s = quantity.read_seconds(written)
    if not 0 < store_s <= _LONGEST_STORE_S:
        raise RuleError("must be above 0 s and at most 8784 h, a year")
    return store_s


def read_load_on(written: object) -> str:
    return check_name("place of the load", written, known=names.LOAD_ON)


def read_tap(written: object) -> str:
    return check_name("tap", written, known=names.TAPS)


def read_repetitions(written: object) -> int:
    return read_whole(written, least=1, most=_MOST_REPETITIONS)


def read_seed(written: object) -> int:
    return read_whole(written, least=0, most=_LARGEST_SEED)


def read_phase_s(written: object) -> float:
    """How long a phase lasts, in seconds; it may be left out with 0 s."""
    duration_s = quantity.read_seconds(written)
    if not 0 <= duration_s <= _LONGEST_PHASE_S:
        raise RuleError("must be from 0 s to 24 h")
    return duration_s


def read_needed_phase_s(written: object) -> float:
    """How long a phase lasts that no run can do without, in seconds."""
    duration_s = read_phase_s(written)
    if duration_s == 0:
        raise RuleError("must be above 0 s")
    return duration_s


def read_confidence_percent(written: object) -> float:
    confidence_percent = quantity.read_percent(written)
    if not 50 <= confidence_percent <= 99.99:
        raise RuleError("must be from 50 % to 99.99 %")
    return confidence_percent


def read_share_percent(written: object) -> float:
    share_percent = quantity.read_percent(written)
    if not 0 < share_percent <= 100:
        raise RuleError("must be above 0 % and at most 100 %")
    return share_percent


def read_lag_ms(written: object) -> float:
    lag_ms = quantity.read_milliseconds(written)
    if lag_ms <= 0:
        raise RuleError("must be above 0 ms")
    return lag_ms


def read_guard_bytes(written: object) -> int:
    """A limit in bytes; 0 allows nothing. Negative sizes are refused by the quantity."""
    return quantity.read_bytes(written)


def read_published(written: object) -> str:
    """The name of a published table; whether there is such a table is asked where they are known."""
    if not isinstance(written, str) or not _PUBLISHED.match(written):
        raise RuleError(
            "must name a published table as PAPER/TABLE, such as 002/table6; `brokerlab published` has them"
        )
    return written
