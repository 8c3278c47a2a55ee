"""What was captured, and what of it could not be read."""

from brokerlab.pipeline.schemas.kinds import LONG, REAL, TEXT, TEXTS, Table, schema

CAPTURES = schema(
    run_id=TEXT,
    cell=TEXT,
    tap=TEXT,
    file=TEXT,
    place=TEXT,
    links=TEXTS,
    frames=LONG,
    wire_bytes=LONG,
    seconds=REAL,
    connections=LONG,
    unopened=LONG,  # of those: their beginning was not captured
    foreign=LONG,  # of those: no MQTT that can be read: TLS, WebSocket, something else
    gaps=LONG,  # in streams
    gap_bytes=LONG,
    reordered=LONG,  # segments
    stream_bytes_unread=LONG,  # in no packet
    lost_step=LONG,
    cut_packets=LONG,
    other_frames=LONG,
    fragments=LONG,
    short_frames=LONG,
    foreign_frames=LONG,
    backwards_frames=LONG,
    dropped=LONG,  # by the kernel, as the capturer says; null: it does not
    beyond_limit=LONG,  # frames that were left out because the file was as large as it may be
    file_bytes_unread=LONG,
    problems=TEXTS,
)

TABLE = Table(CAPTURES, grain=("run_id", "tap"), order=("position", "tap"))
