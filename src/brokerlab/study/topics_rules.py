"""The rules about topics that concern several places of a study file."""

from itertools import product

from pydantic import ValidationError

from brokerlab.study import topics
from brokerlab.study.document import Document
from brokerlab.study.factors import FACTORS
from brokerlab.study.identity import tells_publishers_apart
from brokerlab.study.lookup import WORKLOAD, read_or_none, values_of
from brokerlab.study.payload_rules import replay_of, sizes_of
from brokerlab.study.problems import RuleError
from brokerlab.study.readers import read_arrivals
from brokerlab.study.replay import equal_of_two, equal_records, records_of, shares_of
from brokerlab.study.topics_part import TopicsPart
from brokerlab.study.values import Arrivals, Qos, Roles, Schedule, SubscribeAt, Topics, Workload

_FACTORS = ("publishers", "subscribers", "topics", "depth", "length", "retain", "qos", "role")
_IDENTITY_BYTES = 16
_CUT_UP = "with several topics, filters or groups, or a late start"
_MOST_FILTERS = 1_000_000  # of all subscribers: each is in the manifest and in the broker's memory


def check_topics(document: Document) -> None:
    """Topics that cannot be made in some cell, or that no filter sees: every message would be for nobody."""
    workloads = workloads_of(document)
    _check_identity(document, workloads)
    for workload in workloads:
        try:
            _check(workload)
            _check_share(workload)
            _check_replay(workload, has_probe=(*WORKLOAD, "probe") in document.places)
        except RuleError as broken:
            document.add((*WORKLOAD, "topics"), broken.rule)
            return


def workloads_of(document: Document) -> list[Workload]:
    """The workloads of the study as far as topics are concerned; none where the model has something to say first."""
    try:
        named = TopicsPart.model_validate(document.mapping(*WORKLOAD, "topics")).value()
    except ValidationError:
        return []
    arrivals = read_or_none(read_arrivals, document.get(*WORKLOAD, "schedule", "arrivals"))
    schedule = Schedule() if arrivals is None else Schedule(arrivals)
    levels = {
        factor: [read_or_none(FACTORS[factor].read, written) for _, written in values_of(document, factor)]
        for factor in _FACTORS
    }
    varied = {factor: each for factor, each in levels.items() if each}
    workloads = []
    for combination in product(*varied.values()):
        workload = Workload(topics=named, schedule=schedule)
        for factor, level in zip(varied, combination, strict=True):
            if level is None:
                return []
            workload = FACTORS[factor].apply(workload, level)
        workloads.append(workload)
    return workloads


def _check(workload: Workload) -> None:
    named = workload.topics
    if named.count > 1 and "{topic}" not in named.publish:
        raise RuleError(f'{named.count} topics need {{topic}} in publish, such as "{named.publish}/{{topic}}"')
    topics.check_padding(named, publishers=workload.publishers)
    if workload.role is not Roles.ONE_WAY:
        if _is_cut_up(workload):
            raise RuleError("several topics or filters, share and subscribe_at: after need the role one-way")
        return  # there nobody hears by a filter of its own
    if not any(topics.may_match(each, named.publish) for each in topics.patterns_of(named)):
        raise RuleError(f'{_filters(named)} no topic of "{named.publish}"')
    topics.check_filters(named, publishers=workload.publishers, subscribers=workload.subscribers)
    filters = topics.filter_count(named, publishers=workload.publishers) * workload.subscribers
    if filters > _MOST_FILTERS:
        raise RuleError(f"all subscribers together would have {filters} filters; the most are {_MOST_FILTERS}")


def _check_identity(document: Document, workloads: list[Workload]) -> None:
    """Who does not get every message of a publisher, and in order, cannot count them to know which is which."""
    payload = document.mapping(*WORKLOAD, "payload")
    if "template" in payload:
        return
    if not any(_is_cut_up(workload) for workload in workloads):
        _check_publishers(document, workloads)
        return
    _check_records(document, workloads)
    for path, size in sizes_of(document, payload):
        if size is not None and size < _IDENTITY_BYTES:
            rule = f"{_CUT_UP}, messages hold their whole identity, {_IDENTITY_BYTES} B; give at least that"
            document.add(path, rule)


def _check_records(document: Document, workloads: list[Workload]) -> None:
    """A record is told by its bytes, wherever and whenever it comes; equal ones only where they come in order."""
    replay = replay_of(document)
    if replay is None:
        return
    file = (*WORKLOAD, "payload", "file")
    if replay.repeat:
        rule = f"{_CUT_UP}, a record cannot be told from the same one of another time round: send the file once"
        document.add((*WORKLOAD, "payload", "repeat"), rule)
    records = records_of(replay)
    if (equal := equal_records(records)) is not None:
        rule = f"{_CUT_UP}, records are told by their bytes alone, and {equal[0]} and {equal[1]} of the file are equal"
        document.add(file, rule)
    empty = (records.begins == records.ends).nonzero()[0]
    if empty.size and any(workload.topics.subscribe_at is SubscribeAt.AFTER for workload in workloads):
        document.add(file, f"record {empty[0] + 1} of the file is empty, which has the broker forget what it retained")


def _check_publishers(document: Document, workloads: list[Workload]) -> None:
    """On a topic of several publishers a record tells whose it is as well; of one, equal ones come in order."""
    most = {workload.publishers for workload in workloads if not tells_publishers_apart(workload)}
    replay = replay_of(document) if most else None
    if replay is None:
        return
    records = records_of(replay)
    for publishers in sorted(most):
        equal = equal_of_two(records, shares_of(records, replay.split, publishers=publishers))
        if equal is not None:
            rule = (
                f"the {publishers} publishers of one topic are told apart by their records alone, and {equal[0]} and"
                f" {equal[1]} of the file, of two of them, are equal: give each a topic of its own, with {{publisher}}"
                " in topics.publish"
            )
            document.add((*WORKLOAD, "payload", "file"), rule)
            return


def _is_cut_up(workload: Workload) -> bool:
    named = workload.topics
    return (
        named.count > 1
        or bool(named.share)
        or named.subscribe_at is SubscribeAt.AFTER
        or (len(topics.patterns_of(named)) > 1)
    )


def _check_share(workload: Workload) -> None:
    named = workload.topics
    if not named.share:
        return
    if not isinstance(named.subscribe, str) or "{" in named.subscribe:
        raise RuleError("share needs one filter that is the same for all subscribers: no list and no placeholder")
    if len(named.share) > workload.subscribers:
        raise RuleError(
            f"share has {len(named.share)} groups for {workload.subscribers} subscribers; some have no member"
        )


def _check_replay(workload: Workload, *, has_probe: bool) -> None:
    """What was retained must be known: who comes after the messages gets the last one of each topic."""
    named = workload.topics
    if named.subscribe_at is SubscribeAt.BEFORE:
        return
    if not workload.retain:
        raise RuleError("subscribe_at: after needs retain: true; nothing else waits for subscribers that come later")
    if workload.qos is Qos.AT_MOST_ONCE:
        raise RuleError("subscribe_at: after needs QoS 1 or 2: at QoS 0 nobody knows when the broker has all messages")
    if named.share:
        raise RuleError("subscribe_at: after has no effect with share: shared subscriptions get nothing retained")
    if has_probe:
        raise RuleError("subscribe_at: after has no place beside a probe, which must subscribe before")
    if workload.publishers > 1 and "{publisher}" not in named.publish:
        raise RuleError("subscribe_at: after needs {publisher} in publish, or the last message of a topic is anybody's")
    if workload.schedule.arrivals in (Arrivals.SATURATE, Arrivals.SEARCH):
        raise RuleError(
            "subscribe_at: after cannot saturate or search: that counts deliveries, and there are none before the end"
        )


def _filters(named: Topics) -> str:
    if isinstance(named.subscribe, str):
        return f'the filter "{named.subscribe}" matches'
    return "none of the filters " + ", ".join(f'"{each}"' for each in named.subscribe) + " matches"
