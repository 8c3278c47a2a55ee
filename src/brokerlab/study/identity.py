"""How a subscriber tells which message it got: pure functions of the workload.

full     16 bytes at the start of the payload: intended time, publisher, sequence number
text     numbers in the JSON text
short    payloads of 1 to 15 bytes: the publisher where the topic does not tell it, and the low bytes of the
     sequence number, which the expected one completes
content  records of a file, to which no byte is added: the record whose bytes they are, next after the last one;
         records that are equal are told apart by their order
order    no byte to hold an identity: the n-th message of a topic is taken for the n-th that was published to it
"""

from enum import StrEnum

from brokerlab.study.replay import nearest_equals
from brokerlab.study.values import Content, Workload

FULL_BYTES = 16
_SEQ_BYTES = 4


class Identity(StrEnum):
    FULL = "full"
    TEXT = "text"
    SHORT = "short"
    CONTENT = "content"
    ORDER = "order"


def identity_of(workload: Workload) -> Identity:
    if workload.payload.replay is not None:
        return Identity.CONTENT
    if workload.payload.content is Content.JSON:
        return Identity.TEXT
    smallest = smallest_payload_bytes(workload)
    if smallest >= FULL_BYTES:
        return Identity.FULL
    return Identity.SHORT if smallest > publisher_bytes(workload) else Identity.ORDER


def payload_sizes(workload: Workload) -> tuple[int, ...]:
    """The sizes that messages of the workload may have; of a file's records the longest."""
    payload = workload.payload
    return tuple(size for size, _ in payload.mix) or payload.each or (workload.payload_bytes,)


def smallest_payload_bytes(workload: Workload) -> int:
    return min(payload_sizes(workload))


def largest_payload_bytes(workload: Workload) -> int:
    return max(payload_sizes(workload))


def tells_publishers_apart(workload: Workload) -> bool:
    """Whether a topic has one publisher, so that the topic of a message tells who sent it."""
    return workload.publishers == 1 or "{publisher}" in workload.topics.publish


def publisher_bytes(workload: Workload) -> int:
    """Bytes of a short identity that hold the publisher."""
    return 0 if tells_publishers_apart(workload) else ((workload.publishers - 1).bit_length() + 7) // 8


def seq_bytes(workload: Workload) -> int:
    """Bytes of a short identity that hold the end of the sequence number."""
    return min(_SEQ_BYTES, smallest_payload_bytes(workload) - publisher_bytes(workload))


def identity_section(workload: Workload) -> dict[str, str | int | None]:
    """What a manifest says: the form, and where messages look alike, how many numbers they are apart at least."""
    form = identity_of(workload)
    return {"form": form.value, "window": _window(workload, form)}


def _window(workload: Workload, form: Identity) -> int | None:
    if form is Identity.SHORT:
        return 1 << (8 * seq_bytes(workload))
    if workload.payload.replay is not None:
        nearest: int | None = nearest_equals(workload.payload.replay, publishers=workload.publishers)
        return nearest
    return None
