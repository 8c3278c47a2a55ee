"""Which subscriber should get which messages: the manifest's filters against its topics.

Usually a publication is owed to every subscriber with a filter that matches its topic. Two things change that:

    a shared subscription   owes it once to the group, whoever of the members gets it
    a retained replay       owes the last publication of each topic, since the subscribers came after all of them: the
                            last one that was acknowledged, or one after it, which the broker may have had or not
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from brokerlab.pipeline.manifests import Subscription
from brokerlab.pipeline.reduce.publications import Publications
from brokerlab.pipeline.reduce.raw import Bools, Longs
from brokerlab.study.hearing import Flows, TopicIndex, flows_of
from brokerlab.study.topics import pattern_of, topics_of
from brokerlab.study.values import Topics

_REFUSED = 0x80  # and above: MQTT 3.1.1 section 3.9.3, MQTT 5.0 section 3.9.3
_NOBODYS = "\0"  # no filter matches it
_NONE: Longs = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Expectation:
    """Subscribers and publishers are places in ascending order of their numbers."""

    subscribers: Longs
    granted_qos: tuple[int | None, ...]  # by subscriber
    flows: Flows
    leader: Longs  # by flow: the flow that keeps its pairs; in a group that of the first member, else itself
    is_shared: Bools  # by flow
    subscribed_ns: Longs | None = None  # by subscriber, of a retained replay

    @property
    def is_replay(self) -> bool:
        return self.subscribed_ns is not None

    def flow_of(self, subscriber: Longs, publisher: Longs) -> Longs:
        """The flow of each pair of places, -1 where there is none."""
        flows = self.flows
        wanted = subscriber * flows.publishers + publisher
        if flows.size == self.subscribers.size * flows.publishers:
            return wanted
        return places_of(wanted, among=flows.subscriber * flows.publishers + flows.publisher)

    def place_in(self, flow: Longs, seq: Longs) -> Longs:
        """The place of each message among those of its flow, ascending with seq, -1 where its topic is not heard."""
        flows = self.flows
        listed, entry = self._entries(flow, seq)
        if not listed.size:
            return seq
        place, own = seq.copy(), flow[listed]
        turn = seq[listed] // flows.count
        place[listed] = np.where(entry >= 0, turn * flows.width[own] + entry - flows.first[own], -1)
        return place

    def copies_of(self, flow: Longs, seq: Longs) -> Longs:
        """How many filters of its subscriber match each message."""
        listed, entry = self._entries(flow, seq)
        copies = self.flows.copies[flow]
        if listed.size:
            copies[listed] = np.where(entry >= 0, self.flows.topic_copies[entry], 0)
        return copies

    def _entries(self, flow: Longs, seq: Longs) -> tuple[Longs, Longs]:
        """Which messages are of a flow that hears some topics only, and where each of those topics is listed, or -1."""
        flows = self.flows
        if not flows.topics.size:
            return (_NONE, _NONE)
        listed = np.flatnonzero(flows.first[flow] >= 0)
        own, topic = flow[listed], seq[listed] % flows.count
        owner = np.repeat(np.arange(flows.size), np.where(flows.first >= 0, flows.width, 0))
        return listed, places_of(own * flows.count + topic, among=owner * flows.count + flows.topics)

    def sizes(self, reach: Longs) -> Longs:
        """How many places each flow needs for the sequence numbers below `reach` of its publisher."""
        flows = self.flows
        whole = reach[flows.publisher]
        turns = -(-whole // flows.count)
        return np.where(flows.first >= 0, turns * flows.width, whole)

    def owed(self, publications: Publications) -> Bools:
        """Which publications are owed to those who hear their topic."""
        if not self.is_replay:
            return publications.is_published
        owed = self.owed_for(publications)
        is_owed = np.zeros(owed.size, dtype=np.bool_)
        is_owed[owed[owed >= 0]] = True
        return is_owed

    def owed_for(self, publications: Publications) -> Longs:
        """Of a replay: the publication that each fulfils; -1 for those before the last acknowledged one of the topic.

        Of a topic without an acknowledgement any may be the last, and the last that was sent is owed.
        """
        published = np.flatnonzero(publications.is_published)
        channels = self._channels(publications)
        last, sure = np.full((2, self.flows.publishers * self.flows.count), -1, dtype=np.int64)
        np.maximum.at(last, channels[published], published)
        acknowledged = np.flatnonzero(publications.is_acknowledged)
        np.maximum.at(sure, channels[acknowledged], acknowledged)
        channel = channels[published]
        owed = np.full(publications.is_published.size, -1, dtype=np.int64)
        is_new = published >= sure[channel]
        owed[published[is_new]] = np.where(sure >= 0, sure, last)[channel[is_new]]
        return owed

    def pairs(self, publications: Publications, mask: Bools) -> Longs:
        """How many publications of the mask each flow is owed; 0 for members of a group that do not keep its pairs."""
        size = self.flows.publishers * self.flows.count
        by_channel = np.bincount(self._channels(publications)[mask], minlength=size)
        return np.where(self.leader == np.arange(self.flows.size), self.flows.sums(by_channel), 0)

    def crossing(self, subscribed: Mapping[int, int | None], published: Mapping[int, int], publishers: Longs) -> Bools:
        """By flow whether its publisher and its subscriber are at different nodes, by the numbers of both."""
        here = np.array([published.get(int(number), -1) for number in publishers], dtype=np.int64)
        there = np.array([subscribed[int(number)] or 0 for number in self.subscribers], dtype=np.int64)
        is_crossing: Bools = here[self.flows.publisher] != there[self.flows.subscriber]
        return is_crossing

    def granted_of_flows(self) -> Longs:
        """The QoS granted, by flow; -1 where it is not known."""
        granted = np.array([-1 if qos is None else qos for qos in self.granted_qos], dtype=np.int64)
        return granted[self.flows.subscriber]

    def _channels(self, publications: Publications) -> Longs:
        count, reach = self.flows.count, publications.reach
        publisher = np.repeat(np.arange(publications.publishers.size), reach)
        if count == 1:
            return publisher
        seq = np.arange(publisher.size) - publications.base[publisher]
        return publisher * count + seq % count


def expectation(
    subscriptions: Sequence[Subscription], *, topics: Mapping[int, str], publishers: Longs, rule: Topics | None = None
) -> Expectation:
    """What the subscriptions promise: one that was refused nothing, and a publisher without a known topic nobody.

    `rule` is how topics are made where publishers have several.
    """
    ordered = sorted(subscriptions, key=lambda subscription: subscription.subscriber)
    count = 1 if rule is None else rule.count
    is_known = all(int(publisher) in topics for publisher in publishers)
    index = TopicIndex(
        lambda: _names(publishers, topics, rule),
        size=publishers.size * count,
        pattern=pattern_of(rule) if rule is not None and is_known else None,
    )
    flows = flows_of([() if _is_refused(each) else each.filters for each in ordered], index, count=count)
    leader, is_shared = _leaders(ordered, flows)
    since = [each.replayed_since_ns for each in ordered]
    is_replay = any(at_ns is not None for at_ns in since)
    return Expectation(
        subscribers=np.array([subscription.subscriber for subscription in ordered], dtype=np.int64),
        granted_qos=tuple(subscription.granted_qos for subscription in ordered),
        flows=flows,
        leader=leader,
        is_shared=is_shared,
        subscribed_ns=np.array([at_ns or 0 for at_ns in since], dtype=np.int64) if is_replay else None,
    )


def _names(publishers: Longs, topics: Mapping[int, str], rule: Topics | None) -> Iterator[str]:
    for publisher in publishers.tolist():
        if publisher not in topics:
            yield from [_NOBODYS] * (1 if rule is None else rule.count)
        elif rule is None:
            yield topics[publisher]
        else:
            yield from topics_of(rule, publisher)


def _leaders(subscriptions: Sequence[Subscription], flows: Flows) -> tuple[Longs, Bools]:
    """The flow that keeps the pairs of each flow, and which flows are those of a group.

    Members of a group have the same filter, so their flows are the same publishers in the same order.
    """
    leader = np.arange(flows.size)
    is_shared = np.zeros(flows.size, dtype=np.bool_)
    starts = np.searchsorted(flows.subscriber, np.arange(len(subscriptions) + 1))
    first: dict[str, int] = {}
    for place, subscription in enumerate(subscriptions):
        start, end = starts[place], starts[place + 1]
        if subscription.group is None or start == end:
            continue
        begin = first.setdefault(subscription.group, int(start))
        leader[start:end] = np.arange(begin, begin + end - start)
        is_shared[start:end] = True
    return leader, is_shared


def _is_refused(subscription: Subscription) -> bool:
    return subscription.granted_qos is not None and subscription.granted_qos >= _REFUSED


def places_of(values: Longs, *, among: Longs) -> Longs:
    """The place of each value in an ascending array, -1 where it is not there."""
    if among.size == 0:
        return np.full(values.size, -1, dtype=np.int64)
    if among[0] == 0 and among[-1] == among.size - 1:  # numbers that count are their own places
        return np.where((values >= 0) & (values < among.size), values, -1)
    place = np.minimum(np.searchsorted(among, values), among.size - 1)
    return np.where(among[place] == values, place, -1)
