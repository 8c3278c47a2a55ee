"""Between jobs: what capture files come to."""

from pyspark.sql import types as T

from brokerlab.pipeline.schemas.kinds import BOOL, INT, LONG, REAL, TEXT, TEXTS, schema

BLOB = T.BinaryType()

# What a part of a capture file holds beside segments of the broker's connections (frames.TALLIES).
PART = schema(
    frames=LONG,
    wire_bytes=LONG,
    other_frames=LONG,
    other_bytes=LONG,
    fragments=LONG,
    short_frames=LONG,
    foreign_frames=LONG,
    backwards_frames=LONG,
    first_ns=LONG,  # since 1970, as the next; null without frames
    last_ns=LONG,
    links=TEXTS,
    unread_bytes=LONG,  # of the file
    problem=TEXT,  # why; null: the part was read to its end
)

# One row per part of a file, which says what is in it; and one or more per connection in it, with its segments in
# the order of the file: 32 bytes each, as frames.py says. `number` puts the rows of a connection in order.
CAPTURED = schema(path=TEXT, number=LONG, client=TEXT, broker=TEXT, segments=BLOB, part=PART)

# Which file is whose.
TAPS = schema(
    path=TEXT, run_directory=TEXT, run_id=TEXT, tap=TEXT, file=TEXT, place=TEXT, dropped=LONG, beyond_limit=LONG
)

# What was counted of packets, one row per phase and type; "frames" is everything that was on the wire.
COUNTED = schema(
    phase=TEXT,
    packet_type=TEXT,
    packets=LONG,
    bytes=LONG,
    to_broker_packets=LONG,  # of those
    to_broker_bytes=LONG,
    payload_bytes=LONG,
    retransmissions=LONG,  # packets of MQTT with DUP set; segments of TCP with bytes that were there before
)

# What could not be read of connections (follow.Counts).
FOLLOWING = schema(
    gaps=LONG,
    gap_bytes=LONG,
    reordered=LONG,
    unread_bytes=LONG,
    lost_step=LONG,
    cut_packets=LONG,
    connections=LONG,
    unopened=LONG,
    foreign=LONG,
)

# Publications that came or left: 40 bytes each, as messages.py says. Those of one message are in one bucket.
MESSAGES = schema(bucket=INT, packed=BLOB)

# A tagged union: exactly one of the last four is not null in a row.
FOLLOWED = schema(run_id=TEXT, tap=TEXT, part=PART, counted=COUNTED, following=FOLLOWING, messages=MESSAGES)

# One row per MQTT packet.
PACKETS = schema(
    path=TEXT,
    client=TEXT,
    broker=TEXT,
    packet_type=INT,
    flags=INT,  # of the fixed header
    to_broker=BOOL,
    packet_id=INT,
    topic_hash=LONG,
    topic_bytes=INT,  # null in packets without one, and where it is not known
    payload_hash=LONG,
    payload_bytes=INT,
    bytes=INT,
    first_ns=LONG,  # of the first and the last frame that carried it
    last_ns=LONG,
)

# One row per file and type of packet; several, which add up, where a file's connections were followed in several tasks.
TYPES = schema(path=TEXT, packet_type=INT, packets=LONG)

# One row per run, tap, leg and bucket of messages.
MATCHED = schema(
    run_id=TEXT,
    tap=TEXT,  # two, with an arrow between them, where a message came at one and left at the other
    leg=TEXT,
    messages=LONG,
    payload_bytes=LONG,
    first_ns=LONG,
    last_ns=LONG,
    unmatched=LONG,
    ambiguous=LONG,
    n=LONG,
    sum_ns=REAL,
    sum_of_squares_ns2=REAL,
    min_ns=LONG,
    max_ns=LONG,
    negative_count=LONG,
    buckets=T.ArrayType(schema(bucket=INT, low_ns=LONG, high_ns=LONG, n=LONG)),
)
