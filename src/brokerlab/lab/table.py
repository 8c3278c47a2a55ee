"""What became of the filters beside the load's own: for the manifest and for the verdict. Pure."""

from collections.abc import Iterable

from brokerlab.lab.verdict import lag_ms
from brokerlab.load.packets import FIRST_FAILURE
from brokerlab.load.spec import Stopped, TableFacts
from brokerlab.study.table import FilterTable
from brokerlab.study.values import Guards


def _tables(workers: Iterable[Stopped]) -> list[TableFacts]:
    return [each.table for each in workers if each.table is not None]


def table_section(workers: Iterable[Stopped], asked: FilterTable) -> dict[str, object] | None:
    """For the manifest; None where no filters were asked for beside the load's own."""
    if not (facts := _tables(workers)):
        return None
    (table,) = facts
    p50_ms, p99_ms, max_ms = lag_ms([(table.lag_buckets, table.lag_max_ns)])
    return {
        "filters": asked.table,
        "kind": asked.kind.value,
        "clients": asked.clients,
        "filled": table.filled,
        "fill_s": table.fill_s,
        "filled_per_s": table.filled / table.fill_s if table.filled and table.fill_s else None,
        "churn_per_s": asked.churn_per_s,
        "changes": table.asked,
        "refused": {event: {str(code): n for code, n in codes.items()} for event, codes in table.refused.items()},
        "standing": table.standing,
        "refilled": table.refilled,
        "schedule_lag_ms": {"p50": p50_ms, "p99": p99_ms, "max": max_ms},
        "unsent": table.unsent,
        "unanswered": table.unanswered,
        "unexpected": table.unexpected,
    }


def table_reasons(workers: Iterable[Stopped], guards: Guards, *, is_planned: bool = False) -> list[str]:
    """Why the table was not what the study asks for, or changed later than it should.

    Where faults are planned, changes that nobody could make are part of the plan.
    """
    reasons = []
    for table in _tables(workers):
        _, p99_ms, _ = lag_ms([(table.lag_buckets, table.lag_max_ns)])
        if p99_ms is not None and p99_ms > guards.schedule_lag_p99_ms:
            limit = f"{p99_ms:.2f} ms is above {guards.schedule_lag_p99_ms:g} ms"
            reasons.append(f"schedule lag p99 of filters/0: {limit}, subscriptions changed later than they were due")
        if table.unsent and not is_planned:
            reasons.append(f"{table.unsent} changes of subscriptions that were due were not handed over")
        if table.unexpected:
            reasons.append(f"{table.unexpected} messages came by filters that match none of the load's topics")
    return reasons


def table_refusals(workers: Iterable[Stopped], *, is_planned: bool = False) -> list[str]:
    """What the broker did not carry of the table; where faults are planned it may be gone before it answers."""
    reasons = []
    for table in _tables(workers):
        refused = {
            event: sum(n for code, n in codes.items() if code >= FIRST_FAILURE)
            for event, codes in table.refused.items()
        }
        reasons += [f"the broker refused to {event} {n} filters of its table" for event, n in refused.items() if n]
        if table.unanswered and not is_planned:
            reasons.append(f"the broker left {table.unanswered} changes of subscriptions unanswered")
    return reasons
