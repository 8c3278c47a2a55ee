"""Which subscriber should get which publisher's messages: the manifest's filters against its topics."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from brokerlab.pipeline.manifests import Subscription
from brokerlab.pipeline.reduce.raw import Bools, Longs
from brokerlab.study.topics import topic_matches

_REFUSED = 0x80  # and above: MQTT 3.1.1 section 3.9.3, MQTT 5.0 section 3.9.3


@dataclass(frozen=True, slots=True)
class Expectation:
    """Rows are subscribers, columns are publishers, both ascending by number."""

    subscribers: Longs
    granted_qos: tuple[int | None, ...]  # by subscriber
    matches: Bools  # subscriber × publisher

    def subscribers_granted(self, qos: int | None) -> Longs:
        """How many subscribers with this granted QoS each publisher's messages should reach."""
        rows = [number for number, granted in enumerate(self.granted_qos) if granted == qos]
        count: Longs = self.matches[rows].sum(axis=0, dtype=np.int64)
        return count


def expectation(subscriptions: Sequence[Subscription], *, topics: Mapping[int, str], publishers: Longs) -> Expectation:
    """What the subscriptions promise: one that was refused nothing, and a publisher without a known topic nobody."""
    ordered = sorted(subscriptions, key=lambda subscription: subscription.subscriber)
    topic_of = [topics.get(int(publisher)) for publisher in publishers]
    row_of_filter = {
        topic_filter: [topic is not None and topic_matches(topic_filter, topic) for topic in topic_of]
        for topic_filter in {subscription.topic_filter for subscription in ordered}
    }
    matches = np.array([row_of_filter[subscription.topic_filter] for subscription in ordered], dtype=np.bool_)
    matches = matches.reshape(len(ordered), publishers.size)
    matches[[_is_refused(subscription) for subscription in ordered]] = False
    return Expectation(
        subscribers=np.array([subscription.subscriber for subscription in ordered], dtype=np.int64),
        granted_qos=tuple(subscription.granted_qos for subscription in ordered),
        matches=matches,
    )


def _is_refused(subscription: Subscription) -> bool:
    return subscription.granted_qos is not None and subscription.granted_qos >= _REFUSED


def places_of(values: Longs, *, among: Longs) -> Longs:
    """The place of each value in an ascending array, -1 where it is not there."""
    if among.size == 0:
        return np.full(values.size, -1, dtype=np.int64)
    place = np.minimum(np.searchsorted(among, values), among.size - 1)
    return np.where(among[place] == values, place, -1)
