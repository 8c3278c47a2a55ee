"""The topic of the readiness proof, and which texts are topic filters (MQTT 3.1.1, section 4.7)."""

# The readiness proof publishes below this level; nothing of a load does.
PROOF_PREFIX = "brokerlab-proof/"

# The latency probe publishes below this one, and commands to publishers below the other.
PROBE_PREFIX = "brokerlab-probe/"
CONTROL_PREFIX = "brokerlab-control/"


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
