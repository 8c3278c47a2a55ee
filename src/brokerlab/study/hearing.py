"""Who hears what: the channels that filters match, found through a tree of topics and kept sparse.

    channel     one topic of one publisher: publisher * count + topic
    flow        a subscriber and a publisher whose messages it hears, all of them or those of some topics

One publisher and one subscriber each of ten thousand are ten thousand flows here and not a hundred million places.
The lab and the pipeline both count through this module, so that they expect the same.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from brokerlab.study.topics import topic_matches

Longs = NDArray[np.int64]

_NONE: Longs = np.empty(0, dtype=np.int64)


@dataclass(slots=True)
class _Level:
    """A level of the tree of topics: the channels whose topic ends here, and the levels below."""

    channels: list[int] = field(default_factory=list)
    below: dict[str, "_Level"] = field(default_factory=dict)


class TopicIndex:
    """The channels of a run, by topic; the tree is made when a filter cannot be decided by the pattern alone."""

    def __init__(self, names: Callable[[], Iterable[str]], *, size: int, pattern: str | None = None) -> None:
        """`names` are the topics of all `size` channels in order; `pattern` is what all of them are made of."""
        self.size = size
        self._names, self._pattern = names, pattern
        self._root: _Level | None = None
        self._found: dict[str, Longs | None] = {}

    def heard(self, topic_filter: str) -> Longs | None:
        """The channels that the filter matches, ascending; None for all of them."""
        if topic_filter not in self._found:
            self._found[topic_filter] = self._search(topic_filter)
        return self._found[topic_filter]

    def _search(self, topic_filter: str) -> Longs | None:
        # A level with a placeholder equals no level of a filter, so the pattern can only say yes where all topics do.
        if self._pattern is not None and topic_matches(topic_filter, self._pattern):
            return None
        found = list(_walk(self._tree(), topic_filter.split("/")))
        channels: Longs = np.sort(np.array(found, dtype=np.int64))
        return None if channels.size == self.size else channels

    def _tree(self) -> _Level:
        if self._root is None:
            self._root = _Level()
            for channel, name in enumerate(self._names()):
                level = self._root
                for part in name.split("/"):
                    level = level.below.setdefault(part, _Level())
                level.channels.append(channel)
        return self._root


def _walk(root: _Level, levels: list[str]) -> Iterable[int]:
    """The channels below the root that the levels of a filter match (MQTT 3.1.1 section 4.7)."""
    reached = [root]
    for number, wanted in enumerate(levels):
        if wanted == "#":
            return _all_below(reached, with_system=number > 0)
        if wanted == "+":
            reached = [
                below
                for level in reached
                for name, below in level.below.items()
                if number > 0 or not name.startswith("$")
            ]
        else:
            reached = [level.below[wanted] for level in reached if wanted in level.below]
    return [channel for level in reached for channel in level.channels]


def _all_below(levels: list[_Level], *, with_system: bool) -> list[int]:
    found: list[int] = []
    is_top = not with_system
    while levels:
        found += [channel for level in levels for channel in level.channels]
        levels = [
            below for level in levels for name, below in level.below.items() if not (is_top and name.startswith("$"))
        ]
        is_top = False
    return found


@dataclass(frozen=True, slots=True)
class Flows:
    """Ascending by subscriber, then by publisher; both are places, not numbers.

    The topics of a flow that does not hear all of them alike are listed: entries first[flow] to first[flow] + width.
    """

    publishers: int
    count: int  # topics of each publisher
    subscriber: Longs
    publisher: Longs
    width: Longs  # topics heard
    copies: Longs  # filters that match each of them; without meaning where topics are listed
    first: Longs  # -1 where all topics are heard alike
    topics: Longs
    topic_copies: Longs

    @property
    def size(self) -> int:
        return self.subscriber.size

    @property
    def is_overlapping(self) -> bool:
        """Whether some message matches two filters of one subscriber."""
        return bool((self.copies > 1).any() or (self.topic_copies > 1).any())

    def sums(self, by_channel: Longs) -> Longs:
        """For each flow the sum over its channels."""
        by_publisher = by_channel.reshape(self.publishers, self.count).sum(axis=1)
        sums: Longs = by_publisher[self.publisher]
        listed = np.flatnonzero(self.first >= 0)
        if listed.size:
            owner = np.repeat(listed, self.width[listed])
            values = by_channel[self.publisher[owner] * self.count + self.topics]
            sums[listed] = 0
            np.add.at(sums, owner, values)
        return sums


def flows_of(filters: Sequence[tuple[str, ...]], index: TopicIndex, *, count: int) -> Flows:
    """The flows of subscribers with these filters; a subscriber without filters hears nothing."""
    publishers = index.size // count
    known: dict[tuple[str, ...], tuple[Longs, ...]] = {}
    parts: list[tuple[Longs, ...]] = []
    for place, own in enumerate(filters):
        if own not in known:
            known[own] = _flows_of_one([index.heard(each) for each in own], publishers=publishers, count=count)
        publisher, *rest = known[own]
        parts.append((np.full(publisher.size, place, dtype=np.int64), publisher, *rest))
    columns = [np.concatenate([part[k] for part in parts]) if parts else _NONE for k in range(7)]
    subscriber, publisher, width, copies, is_listed, topics, topic_copies = columns
    lengths = np.where(is_listed > 0, width, 0)
    first = np.where(is_listed > 0, np.cumsum(lengths) - lengths, -1)
    return Flows(publishers, count, subscriber, publisher, width, copies, first, topics, topic_copies)


def _flows_of_one(heard: list[Longs | None], *, publishers: int, count: int) -> tuple[Longs, ...]:
    """Publisher, width, copies and whether topics are listed, per flow; topics and their copies, per listed topic."""
    whole = sum(channels is None for channels in heard)
    some = [channels for channels in heard if channels is not None and channels.size]
    if not some:
        publisher = np.arange(publishers if whole else 0)
        filled = np.ones(publisher.size, dtype=np.int64)
        return publisher, filled * count, filled * whole, filled * 0, _NONE, _NONE
    channel, copies = np.unique(np.concatenate(some), return_counts=True)
    if whole:
        copies = whole + np.bincount(np.repeat(channel, copies), minlength=publishers * count)
        channel = np.arange(publishers * count)
    publisher, first, width = np.unique(channel // count, return_index=True, return_counts=True)
    least, most = np.minimum.reduceat(copies, first), np.maximum.reduceat(copies, first)
    is_listed = ((width < count) | (least < most)).astype(np.int64)
    of_listed = np.repeat(is_listed > 0, width)
    return publisher, width, least, is_listed, (channel % count)[of_listed], copies[of_listed]
