"""The topic of the readiness proof, and which texts are topic filters (MQTT 3.1.1, section 4.7)."""

from brokerlab.load.spec import Client
from brokerlab.study.topics import SHARE, topics_of
from brokerlab.study.values import Workload

# The readiness proof publishes below this level; nothing of a load does.
PROOF_PREFIX = "brokerlab-proof/"


def own_topics(client: Client, workload: Workload) -> list[str]:
    """The topics of a publisher; one that is alone stands in its client, whatever made it."""
    topics = workload.topics
    return topics_of(topics, client.number) if topics.count > 1 else [client.topic]


def own_filter(text: str) -> str:
    """The filter without the group of a shared subscription."""
    return text.split("/", 2)[2] if text.startswith(SHARE) and text.count("/") > 1 else text


def is_filter(text: str) -> bool:
    """Whether `text` is a legal topic filter: + fills a level, # is the last level."""
    levels = text.split("/")
    return (
        bool(text)
        and "\0" not in text
        and all("#" not in level for level in levels[:-1])
        and all(level == "+" or "+" not in level for level in levels)
        and ("#" not in levels[-1] or levels[-1] == "#")
    )
