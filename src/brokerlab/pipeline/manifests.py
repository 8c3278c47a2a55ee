"""What the manifests of a study say, as rows and small values; no Spark and no raw file in sight.

A manifest that cannot be read is a problem to report; the other runs come out all the same.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import pyarrow as pa

from brokerlab.errors import UserError
from brokerlab.pipeline.manifest_row import Phase, payload_classes, row_of, run_id_of, whole_or_none
from brokerlab.pipeline.origin import HERE, Origin, origin_of
from brokerlab.pipeline.schemas import arrow_schema
from brokerlab.pipeline.schemas.manifests import MANIFESTS
from brokerlab.record.directory import RunDirectory, StudyDirectory
from brokerlab.record.manifest import Json
from brokerlab.study.identity import Identity
from brokerlab.study.topics import topic_matches
from brokerlab.study.values import Analysis, Topics

_REFUSED = 0x80
_ASIDE = re.compile(r"\.cut-\d+$")
_WITHOUT_SUBSCRIBERS = ("wills", "teardown")  # phases


@dataclass(frozen=True, slots=True)
class Subscription:
    subscriber: int
    filters: tuple[str, ...]  # without those that were refused; of a shared subscription without $share and group
    granted_qos: int | None  # 128 is a refusal
    group: str | None = None  # of a shared subscription
    replayed_since_ns: int | None = None  # when it subscribed, in a run whose subscribers come after the messages
    node: int | None = None  # of the broker's that it is at; None: there is one


@dataclass(frozen=True, slots=True)
class ProbeFacts:
    publisher: int
    overhearing: tuple[int, ...]  # subscribers of the load whose filter matches the probe's topic
    late_ms: float | None = None  # the study's guard over messages that leave late


@dataclass(frozen=True, slots=True)
class RunFacts:
    """One run directory, as far as its manifest tells."""

    run_id: str
    directory: RunDirectory
    topics: Mapping[int, str]  # by publisher: where its messages are heard, its first; in the role echo that of answers
    rule: Topics | None  # how topics are made, where publishers have several
    subscriptions: tuple[Subscription, ...]
    phases: tuple[Phase, ...]
    payload_classes: tuple[int, ...]  # sizes that are told apart; none where all messages have one
    late_ns: int  # a first arrival this much after its intended time is late
    row: Mapping[str, Any]  # the columns of MANIFESTS
    window: int | None = None  # messages of a publisher that are so many numbers apart look alike
    devices: Mapping[int, int | None] = field(default_factory=dict)  # what each was granted
    probe: ProbeFacts | None = None
    nodes: Mapping[int, int] | None = None  # of the broker's, by publisher; None: there is one
    origin: Origin = HERE
    clocks_bound_ns: int = 0  # how well clocks of several machines agree; 0 on one
    written_off: int = 0  # lost messages that a window waited for in vain
    claimed_id: str | None = None  # by its manifest, which may have been copied from elsewhere

    @property
    def trials(self) -> tuple[Phase, ...]:
        """Of a search: its trials, and the measure phase, which is one more."""
        names = {trial["phase"] for trial in self.row["trials"]}
        return tuple(phase for phase in self.phases if phase.name in names)

    @property
    def measure(self) -> Phase | None:
        return next((phase for phase in self.phases if phase.name == "measure"), None)

    @property
    def heard_until_ns(self) -> int | None:
        """When the subscribers were sent away; None where the run did not get that far, or does not tell."""
        return min((phase.start_ns for phase in self.phases if phase.name in _WITHOUT_SUBSCRIBERS), default=None)


def read_runs(results: StudyDirectory) -> tuple[list[RunFacts], list[str]]:
    """The runs of a study in natural order of cells and repetitions, and what is wrong with the others."""
    facts, problems = [], []
    for directory in results.runs():
        try:
            facts.append(read_facts(directory))
        except UserError as problem:
            problems.append(problem.message)
    once, again = _without_twins(facts)
    return sorted(once, key=_natural_order), problems + again


def _without_twins(facts: Sequence[RunFacts]) -> tuple[list[RunFacts], list[str]]:
    """Of runs that claim to be the same one, that which lies where it belongs, or the first; and who the others are.

    A run that was cut off and set aside has the name of the one that took its place.
    """
    counting: dict[str, RunFacts] = {}
    named = [run for run in facts if run.claimed_id is not None and not _ASIDE.search(run.run_id)]
    for run in sorted(named, key=lambda run: run.run_id != run.claimed_id):
        counting.setdefault(str(run.claimed_id), run)
    twins = [run for run in named if counting[str(run.claimed_id)] is not run]
    told = [
        f"{run.directory.manifest_path}: it is run {run.claimed_id} once more, "
        f"which is {counting[str(run.claimed_id)].directory.path}"
        for run in twins
    ]
    left_out = {run.run_id for run in twins}
    return [run for run in facts if run.run_id not in left_out], told


def read_facts(directory: RunDirectory) -> RunFacts:
    """The facts of one run; a damaged manifest is refused with its path."""
    manifest = directory.manifest()
    try:
        phases = _phases(manifest)
        facts = RunFacts(
            run_id=run_id_of(directory),
            directory=directory,
            topics=_topics(manifest),
            rule=_rule(manifest),
            subscriptions=_subscriptions(manifest),
            phases=phases,
            payload_classes=payload_classes(manifest.get("workload", {})),
            late_ns=round(manifest.get("ledger", {}).get("late_s", Analysis().late_s) * 1e9),
            row=row_of(manifest, directory, phases),
            window=_window(manifest.get("identity", {})),
            devices={
                int(client["device"]): whole_or_none(client.get("granted_qos"))
                for client in _clients(manifest, "devices")
            },
            probe=_probe(manifest),
            nodes=_nodes(manifest),
            origin=origin_of(manifest),
            clocks_bound_ns=_clocks_bound_ns(manifest),
            written_off=int(manifest.get("meter", {}).get("written_off") or 0),
            claimed_id=manifest.get("run", {}).get("id"),
        )
    except (AttributeError, KeyError, TypeError, ValueError) as problem:
        raise UserError(f"{directory.manifest_path}: the manifest is damaged: {problem!r}") from problem
    _refuse_wrong_types(facts)
    return facts


def _window(identity: Json) -> int | None:
    """By order every message is like the next."""
    return 1 if identity.get("form") == Identity.ORDER else whole_or_none(identity.get("window"))


def manifests_table(facts: Sequence[RunFacts]) -> pa.Table:
    """One row per run."""
    return pa.Table.from_pylist([dict(run.row) for run in facts], schema=arrow_schema(MANIFESTS))


def places_of(facts: Sequence[RunFacts]) -> dict[str, pa.Array]:
    """All runs, and all cells, in the order of the list."""
    cells = dict.fromkeys(run.row["cell"] for run in facts)
    return {"run_id": pa.array([run.run_id for run in facts], pa.string()), "cell": pa.array(list(cells), pa.string())}


def filled_columns(facts: Sequence[RunFacts]) -> frozenset[str]:
    """The columns of the manifests' rows that say something of at least one run."""
    return frozenset(name for run in facts for name, value in run.row.items() if value)


def _refuse_wrong_types(facts: RunFacts) -> None:
    for column in arrow_schema(MANIFESTS):
        value = facts.row.get(column.name)
        try:
            pa.array([value], column.type)
        except (pa.ArrowException, OverflowError) as problem:
            path = facts.directory.manifest_path
            raise UserError(f"{path}: the manifest is damaged: {column.name} is {value!r}: {problem}") from problem


def _natural_order(facts: RunFacts) -> tuple[object, ...]:
    """Numbers within names count as numbers: rate-20 comes before rate-100, and 2 before 10."""
    parts = re.split(r"(\d+)", f"{facts.row['cell']}/{facts.run_id}")
    return tuple((int(part), "") if part.isdecimal() else (-1, part) for part in parts)


def _topics(manifest: Json) -> dict[int, str]:
    publishers = _clients(manifest, "publishers")
    return {int(client["publisher"]): str(client.get("reply", client["topic"])) for client in publishers}


def _nodes(manifest: Json) -> dict[int, int] | None:
    publishers = [client for client in _clients(manifest, "publishers") if "node" in client]
    return {int(client["publisher"]): int(client["node"]) for client in publishers} or None


def _probe(manifest: Json) -> ProbeFacts | None:
    probe = manifest.get("clients", {}).get("probe")
    if probe is None:
        return None
    overhearing = tuple(
        subscription.subscriber
        for subscription in _subscriptions(manifest)
        if any(topic_matches(each, probe["topic"]) for each in subscription.filters)
    )
    return ProbeFacts(int(probe["publisher"]), overhearing, manifest.get("guards", {}).get("schedule_lag_p99_ms"))


def _rule(manifest: Json) -> Topics | None:
    written = manifest.get("workload", {}).get("topics", {})
    if int(written.get("count", 1)) == 1:
        return None
    known = {field.name: written[field.name] for field in fields(Topics) if field.name in written}
    return Topics(**known)


def _subscriptions(manifest: Json) -> tuple[Subscription, ...]:
    subscriptions = tuple(_subscription(client) for client in _clients(manifest, "subscribers"))
    if len({subscription.subscriber for subscription in subscriptions}) != len(subscriptions):
        raise ValueError("a subscriber is listed twice")
    return subscriptions


def _subscription(client: Json) -> Subscription:
    """With one filter, or with several and what the broker granted to each."""
    written = [client["filter"]] if "filter" in client else client["filters"]
    granted = client.get("granted") or [0] * len(written)
    filters = [str(each) for each, code in zip(written, granted, strict=True) if code < _REFUSED]
    group = client.get("group")
    if group is not None:
        filters = [each.split("/", 2)[2] for each in filters]
    return Subscription(
        int(client["subscriber"]),
        tuple(filters),
        whole_or_none(client.get("granted_qos")),
        None if group is None else str(group),
        whole_or_none(client.get("replayed_since_ns")),
        whole_or_none(client.get("node")),
    )


def _clients(manifest: Json, role: str) -> list[Json]:
    return list(manifest.get("clients", {}).get(role, []))


def _clocks_bound_ns(manifest: Json) -> int:
    """Of a load on a cluster: by how much a latency between the two worst clocks may be wrong."""
    bounds = sorted(int(worker["bound_ns"]) for worker in manifest.get("workers", {}).values())
    return sum(bounds[-2:])


def _phases(manifest: Json) -> tuple[Phase, ...]:
    phases = tuple(
        Phase(str(phase["name"]), int(phase["start_ns"]), int(phase["end_ns"])) for phase in manifest.get("phases", [])
    )
    for phase in phases:
        if phase.end_ns < phase.start_ns:
            raise ValueError(f"the clock goes back: phase {phase.name} ends before it begins")
    return phases
