"""The mapping scenario.workload.topics of a study file."""

from typing import Annotated, Any

from pydantic import PlainValidator

from brokerlab.study import factor, factors, topic_factors, topics
from brokerlab.study import values as v
from brokerlab.study.part import Part
from brokerlab.study.problems import RuleError, check_name

_TOPICS = v.Topics()

Count = Annotated[int, PlainValidator(topic_factors.read_topics)]
Depth = Annotated[int | None, PlainValidator(topic_factors.read_depth)]
Length = Annotated[int | None, PlainValidator(topic_factors.read_length_bytes)]


Retain = Annotated[str, PlainValidator(factor.read_switch)]


def _read_share(written: object) -> tuple[str, ...]:
    """One group or several; a name of a group is a level of a topic (MQTT 5.0 section 4.8.2)."""
    names = written if isinstance(written, list) else [written]
    if not names or len(set(map(str, names))) < len(names):
        raise RuleError("must be the name of a group, or a list of different ones")
    return tuple(factors.read_name(name) for name in names)


def read_subscribe_at(written: object) -> v.SubscribeAt:
    return v.SubscribeAt(check_name("time to subscribe", written, known=[at.value for at in v.SubscribeAt]))


class TopicsPart(Part):
    publish: Annotated[str, PlainValidator(topics.check_publish_topic)] = _TOPICS.publish
    subscribe: Annotated[Any, PlainValidator(topics.check_subscribe_filters)] = _TOPICS.subscribe
    reply: Annotated[str, PlainValidator(topics.check_publish_topic)] = _TOPICS.reply
    count: Count = _TOPICS.count
    depth: Depth = _TOPICS.depth
    length: Length = _TOPICS.length_bytes
    share: Annotated[tuple[str, ...], PlainValidator(_read_share)] = _TOPICS.share
    subscribe_at: Annotated[v.SubscribeAt, PlainValidator(read_subscribe_at)] = _TOPICS.subscribe_at

    def value(self) -> v.Topics:
        return v.Topics(
            publish=self.publish,
            subscribe=self.subscribe,
            reply=self.reply,
            count=self.count,
            depth=self.depth,
            length_bytes=self.length,
            share=self.share,
            subscribe_at=self.subscribe_at,
        )
