"""What the tables apart are made of, small enough to count on paper: one literal input for each of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import types as T

from brokerlab.pipeline.quality import Judging, agreement_table
from brokerlab.pipeline.schemas import table_of
from brokerlab.pipeline.schemas.printed import ABOUT_CLAIMS, LEVEL_CLAIMS, OURS, VALUES
from brokerlab.pipeline.schemas.sheets import ANSWERS, LEVELS_OF_MODEL, MEMBERSHIPS, TALLIES
from brokerlab.pipeline.transforms import claims as rules
from brokerlab.pipeline.transforms import claims_levels as levels
from brokerlab.pipeline.transforms import quality as judged
from brokerlab.pipeline.transforms.boxes import boxes_table
from brokerlab.pipeline.transforms.equations import equations_table
from brokerlab.pipeline.transforms.published import published_table
from brokerlab.pipeline.transforms.rankings import rankings_table

MS = 1_000_000


@dataclass(frozen=True, slots=True)
class Input:
    schema: T.StructType
    rows: Sequence[Mapping[str, object]]

    def frame(self, spark, *, parts=None):
        """As it stands; in so many parts: from the last row to the first, and spread."""
        rows = [dict.fromkeys(self.schema.names) | row for row in self.rows]
        if parts is None:
            return spark.createDataFrame(rows, self.schema)
        return spark.createDataFrame(rows[::-1], self.schema).repartition(parts)

    def and_also(self, *rows):
        return replace(self, rows=[*self.rows, *rows])


@dataclass(frozen=True, slots=True)
class Made:
    """A table, and what it is made of."""

    table: Callable
    inputs: Mapping[str, Input]

    def of(self, spark, *, parts=None, **changed):
        """With other inputs in the place of those that are given."""
        inputs = {**self.inputs, **changed}
        return self.table(**{name: given.frame(spark, parts=parts) for name, given in inputs.items()})


def of_table(name, rows):
    return Input(table_of(name).columns, rows)


# ---- boxes: ten messages of a cell in two valid runs, and an invalid run ---------------------------------------

TIMES_MS = {"c/1": {1: 2, 2: 2, 20: 1}, "c/2": {3: 3, 4: 2}, "c/3": {90: 9}}
WHOLE = {"cell": "c", "kind": "intended", "group": "all"}


def bucket(run, ms, n):
    return {**WHOLE, "run_id": run, "bucket": ms, "low_ns": (ms - 1) * MS, "high_ns": ms * MS, "n": n}


BOXES = Made(
    lambda histogram, latency, runs: boxes_table(histogram, latency=latency, runs=runs),
    {
        "histogram": of_table("histogram", [bucket(run, *of) for run, own in TIMES_MS.items() for of in own.items()]),
        "latency": of_table(
            "latency",
            [{**WHOLE, "run_id": run, "min_ms": 0.5, "max_ms": max(own) - 0.5} for run, own in TIMES_MS.items()],
        ),
        "runs": of_table(
            "runs",
            [{"run_id": run, "verdict": "invalid" if run == "c/3" else "valid"} for run in TIMES_MS],
        ),
    },
)

# ---- equations: ten published in 5 s, eight acknowledged, eight delivered; of 20 expected in all one is lost ------

RUN = {"run_id": "a/1", "cell": "a"}
EQUATIONS = Made(
    equations_table,
    {
        "runs": of_table("runs", [RUN]),
        "latency": of_table("latency", [{**RUN, "kind": "intended", "group": "all", "n": 8, "mean_ms": 5.0}]),
        "delivery": of_table(
            "delivery",
            [{**RUN, "qos_granted": 0, "expected": 5, "lost": 1}, {**RUN, "qos_granted": 1, "expected": 15, "lost": 0}],
        ),
        "throughput": of_table(
            "throughput",
            [{**RUN, "window": "delivery", "seconds": 4.0, "published": 10, "acknowledged": 8, "delivered": 8}],
        ),
        "legs": of_table("legs", []),
    },
)

# ---- published, rankings: ten numbers of papers and of ours --------------------------------------------------------


def printed(source, broker, value, *, bound="", **others):
    about = {"source": source, "environment": "local", "metric": "average_latency", "qos": "0", "unit": "ms"}
    own = {"broker": broker, "printed_broker": broker.upper(), "value": value, "bound": bound}
    return about | own | {"printed": f"{bound}{value}"} | others


def ours(name, value, *, broker=None, qos="0", **others):
    about = {"metric": "average_latency", "broker": broker or name, "our_broker": name, "our_qos": qos, "others": ""}
    return about | {"lowest": True, "cell": f"{name}.{qos}", "our_value": value, "our_unit": "ms"} | others


PAPERS = Input(
    VALUES,
    [
        printed("002/table6", "a", 1.0, kind="non-scalable"),
        printed("002/table6", "b", 4.0, kind="non-scalable"),
        printed("002/table10", "a", 1.0, kind="all"),
        printed("002/table10", "b", 4.0, kind="all"),
        printed("002/table10", "c", 2.0, kind="all"),
    ],
)
LAB = Input(
    OURS, [ours("a", 6.0), ours("a-too", 5.0, broker="a"), ours("b", 3.0), ours("b", 9.0, qos="1"), ours("e", 8.0)]
)
PUBLISHED = Made(lambda values, lab: published_table(values, ours=lab), {"values": PAPERS, "lab": LAB})
RANKINGS = Made(
    lambda values, lab: rankings_table(values, ours=lab, same=["a", "a-too"]), {"values": PAPERS, "lab": LAB}
)

# ---- claims: one of each kind, two of orders ------------------------------------------------------------------------


def number(source, broker, value, *, metric="latency", qos="0", environment="local", **others):
    name = None if broker is None else broker.upper()
    about = {"source": source, "broker": broker, "printed_broker": name, "qos": qos, "environment": environment}
    known = {"broker": broker, "qos": qos, "environment": environment}
    own = {"levels": {factor: level for factor, level in known.items() if level is not None}}
    return about | own | {"metric": metric, "value": value, "bound": "", "printed": str(value)} | others


def gateway(feature, value, *, metric):
    return number("t3", None, value, metric=metric, feature=feature)


LOST = "lost_messages_mean_per_run"
CLAIM_VALUES = Input(
    VALUES,
    [
        *(number("t1", broker, value) for broker, value in (("a", 1.0), ("b", 2.0), ("c", 3.0))),
        *(number("t1", broker, value, metric="twice") for broker, value in (("a", 2.0), ("b", 5.0))),
        *(number("t2", broker, value, environment="cloud") for broker, value in (("a", 2.0), ("b", 1.0), ("c", None))),
        *(gateway(name, value, metric="published_messages") for name, value in (("p", 90.0), ("q", 10.0))),
        *(gateway(name, value, metric=LOST) for name, value in (("p", 80.0), ("q", 5.0))),
        *(number("text", broker, value, metric="multi") for broker, value in (("a", 1.0), ("b", 0.0), ("c", 0.0))),
        number("t4", None, 33.0, metric="share_of_brokers", outcome="yes"),
    ],
)
RULES = {
    "x-formula": (rules.formula_findings, {"source": ["t1"], "each": ["broker", "qos"], "of": ["latency", "twice"],
                                           "expression": "2 * latency", "equals": "twice", "within": 0}),
    "x-share": (rules.share_findings, {"source": "t4", "outcome": "yes", "group": "multi"}),
    "x-member": (rules.member_findings, {"broker": "a", "group": "multi", "is": True}),
    "x-stands": (rules.stands_findings, {"source": "t2", "metric": "latency", "environment": "cloud", "brokers": 3}),
    "x-survive": (rules.survive_findings, {"source": ["t3"], "qos": "0"}),
}  # fmt: skip
CLAIM_NAMES = ("x-order", "x-first", "x-change", "x-limit", *RULES)


def level_claim(name, source, *, of="broker", each=("qos",), **rule):
    about = {"claim": name, "sources": source, "metric": "latency", "of": of, "each": list(each), "where": {}}
    return about | {"lowest": True} | rule


def _claims(values, orders, changes, limits, about):
    several = [
        levels.order_findings(values, claims=orders, is_complete=True),
        levels.change_findings(values, claims=changes),
        levels.limit_findings(values, claims=limits),
    ]
    own = [find(values, claim=claim, rule=rule) for claim, (find, rule) in RULES.items()]
    return rules.claims_table(rules.union([*several, *own]), about=about)


CLAIMS = Made(
    _claims,
    {
        "values": CLAIM_VALUES,
        "orders": Input(
            LEVEL_CLAIMS,
            [
                level_claim("x-order", ["t1"], asks="order", expected=["a", "b", "c"]),
                level_claim("x-first", ["t2"], asks="first", expected=["a"]),
            ],
        ),
        "changes": Input(
            LEVEL_CLAIMS,
            [
                level_claim(
                    "x-change", None, of="environment", each=("broker", "qos"), before=["local"], after=["cloud"]
                )
            ],
        ),
        "limits": Input(LEVEL_CLAIMS, [level_claim("x-limit", ["t1"], of=None, at_most=2.5)]),
        "about": Input(ABOUT_CLAIMS, [{"claim": name, "position": n} for n, name in enumerate(CLAIM_NAMES)]),
    },
)

# ---- quality: eleven answers about two features of three brokers ---------------------------------------------------


def answer(broker, rater, feature, low, high=None):
    roof, position = {"easy": (5, 0), "qos": (3, 1)}[feature]
    about = {"sheets": "s", "version": "1", "round": 1, "feature_group": "g", "roof": roof, "position": position}
    return about | {"broker": broker, "rater": rater, "feature": feature, "low": low, "high": high or low}


ANSWERED = Input(
    ANSWERS,
    [
        *(answer("a", rater, "easy", level) for rater, level in (("ann", 4), ("bob", 2))),
        *(answer("a", rater, "qos", 3) for rater in ("ann", "bob")),
        *(answer("b", rater, "easy", level) for rater, level in (("ann", 5), ("bob", None))),
        answer("b", "ann", "qos", 1, 2),
        answer("b", "bob", "qos", 2),
        answer("b", "measured", "qos", 3),
        answer("c", "ann", "easy", None),
        answer("c", "ann", "qos", 1),
    ],
)
LEVELS = Input(
    LEVELS_OF_MODEL,
    [{"feature": "easy", "position": 0, "level": level, "label": f"easy {level}"} for level in range(1, 6)]
    + [{"feature": "qos", "position": 1, "level": level, "label": f"qos {level}"} for level in range(1, 4)],
)
GROUPS = Input(
    MEMBERSHIPS,
    [{"feature": "easy", "group": "easy", "member_from": 4}, {"feature": "qos", "group": "whole", "member_from": 3}],
)
NO_TALLIES = Input(TALLIES, [])

QUALITY = Made(judged.quality_table, {"answers": ANSWERED})
SCORES = Made(lambda answers: judged.scores_table(judged.quality_table(answers), select=1), {"answers": ANSWERED})
MEMBERS = Made(
    lambda answers, memberships: judged.groups_table(judged.quality_table(answers), memberships=memberships),
    {"answers": ANSWERED, "memberships": GROUPS},
)
REACHED = Made(
    lambda answers, levels, tallies: judged.levels_table(judged.quality_table(answers), levels=levels, tallies=tallies),
    {"answers": ANSWERED, "levels": LEVELS, "tallies": NO_TALLIES},
)
AGREEMENT = Made(lambda answers: agreement_table(judged.judgements(answers), judging=Judging()), {"answers": ANSWERED})

APART = {
    "boxes": BOXES,
    "equations": EQUATIONS,
    "published": PUBLISHED,
    "rankings": RANKINGS,
    "claims": CLAIMS,
    "quality": QUALITY,
    "quality_scores": SCORES,
    "quality_groups": MEMBERS,
    "quality_levels": REACHED,
    "quality_agreement": AGREEMENT,
}
