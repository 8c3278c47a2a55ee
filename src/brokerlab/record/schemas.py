"""Arrow schemas of the raw files of a run directory; nothing else declares them.

Times are integer nanoseconds of the clock that the manifest names (CLOCK_MONOTONIC of the machine).
What cannot be known is null, never zero: more of it in runs that were imported than in those made here.
"""

import pyarrow as pa

FORMAT_VERSION = 1


def _field(name: str, kind: pa.DataType, *, nullable: bool = False) -> pa.Field:
    return pa.field(name, kind, nullable=nullable)


PUBLICATIONS = pa.schema(
    [
        _field("publisher", pa.int32()),
        _field("seq", pa.int64()),  # from 0, per publisher
        _field("topic", pa.string()),
        _field("qos", pa.int8(), nullable=True),  # this and the next three: null where an import does not tell
        _field("retain", pa.bool_(), nullable=True),
        _field("payload_bytes", pa.int32(), nullable=True),
        _field("intended_ns", pa.int64(), nullable=True),
        _field("sent_ns", pa.int64(), nullable=True),  # null: never handed to the kernel as a whole
        _field("acked_ns", pa.int64(), nullable=True),  # PUBACK at QoS 1, PUBCOMP at QoS 2
        _field("reason_code", pa.int16(), nullable=True),  # MQTT 5: a refusal, or 0x10, nobody hears it
    ]
)

DELIVERIES = pa.schema(
    [
        _field("subscriber", pa.int32()),
        _field("publisher", pa.int64()),  # as read from the payload: a foreign message may hold anything
        _field("seq", pa.int64()),
        _field("qos", pa.int8(), nullable=True),  # this and the next three: null where an import does not tell
        _field("dup", pa.bool_(), nullable=True),
        _field("retain", pa.bool_(), nullable=True),
        _field("payload_bytes", pa.int32(), nullable=True),
        _field("intended_ns", pa.int64(), nullable=True),  # null: the message does not carry it (study/identity.py)
        _field("received_ns", pa.int64()),
        _field("resolution_ns", pa.int64(), nullable=True),  # the arrival lies in (received - resolution, received]
    ]
)

SESSIONS = pa.schema(
    [
        _field("client", pa.string()),
        _field("node", pa.string()),
        _field("event", pa.string()),
        _field("at_ns", pa.int64()),
        _field("latency_ns", pa.int64(), nullable=True),
        _field("granted_qos", pa.int16(), nullable=True),
        _field("reason_code", pa.int16(), nullable=True),
    ]
)

RESOURCES = pa.schema(
    [
        _field("node", pa.string()),  # "broker/0", "publishers/0", "subscribers/0"
        _field("process", pa.int32()),
        _field("at_ns", pa.int64()),
        _field("cpu_ns", pa.int64(), nullable=True),  # user + system since the process started
        _field("rss_bytes", pa.int64(), nullable=True),  # this and the one before: null where an import does not tell
        _field("read_bytes", pa.int64(), nullable=True),  # null without the right to read /proc/PID/io
        _field("written_bytes", pa.int64(), nullable=True),
        _field("threads", pa.int32(), nullable=True),  # this and the next: null in files of before they were sampled
        _field("open_files", pa.int32(), nullable=True),  # descriptors; null without the right to look
    ]
)

COUNTERS = pa.schema(
    [
        _field("node", pa.string()),
        _field("name", pa.string()),
        _field("at_ns", pa.int64()),
        _field("value", pa.float64()),
    ]
)

# The counts of the routers' interfaces since they were made; received is what comes in from the other end.
INTERFACES = pa.schema(
    [
        _field("node", pa.string()),  # "router1"
        _field("interface", pa.string()),  # by where it leads: "site2" to another router, "switch" to its own site
        _field("at_ns", pa.int64()),
        _field("rx_bytes", pa.int64()),
        _field("rx_packets", pa.int64()),
        _field("rx_dropped", pa.int64()),
        _field("tx_bytes", pa.int64()),
        _field("tx_packets", pa.int64()),
        _field("tx_dropped", pa.int64()),
    ]
)

RAW_SCHEMAS = {
    "publications": PUBLICATIONS,
    "deliveries": DELIVERIES,
    "sessions": SESSIONS,
    "resources": RESOURCES,
    "counters": COUNTERS,
    "interfaces": INTERFACES,
    # Role echo: what the devices received (the subscriber is the device's number, the rest as it was published), and
    # what they answered (the publisher is the device's number, and a message is due when it was received).
    "device_deliveries": DELIVERIES,
    "device_publications": PUBLICATIONS,
    # The latency probe, kept apart from the load.
    "probe_deliveries": DELIVERIES,
    "probe_publications": PUBLICATIONS,
}
