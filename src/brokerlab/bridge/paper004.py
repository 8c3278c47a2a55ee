"""The transformer of paper 004 as far as its text tells it: what comes in and what goes out, in bytes (X-04, X-13).

The paper's own is in no package (requirements 1.5), and what it does to the readings is not said. This one keeps the
beginning of a payload, which is all that time and size on the way depend on. Other payloads pass as they are.
"""

from brokerlab.bridge.steps import Message

OUT_BYTES = {125_528: 11_076, 35_703: 9_131, 1_517: 518, 1_593: 1_523}  # Table III, and the mean payloads of the logs


def converted(message: Message) -> bytes:
    """The payload as long as the paper's subscriber got it."""
    return message.payload[: OUT_BYTES.get(len(message.payload), len(message.payload))]
