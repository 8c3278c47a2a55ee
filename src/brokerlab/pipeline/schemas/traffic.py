"""What was on the wire, by tap, phase and type of packet."""

from brokerlab.pipeline.schemas.kinds import LONG, REAL, TEXT, Among, Table, schema

PHASES = ("idle", "connect", "subscribe", "warmup", "measure", "drain", "teardown", "outside", "capture")
TYPES = (
    "all", "TCP/IP", "CONNECT", "CONNACK", "PUBLISH", "PUBACK", "PUBREC", "PUBREL", "PUBCOMP", "SUBSCRIBE", "SUBACK",
    "UNSUBSCRIBE", "UNSUBACK", "PINGREQ", "PINGRESP", "DISCONNECT", "AUTH",
)  # fmt: skip

TRAFFIC = schema(
    run_id=TEXT,
    cell=TEXT,
    tap=TEXT,
    phase=TEXT,  # "outside" of all phases; "capture" where the run has none
    packet_type=TEXT,  # of MQTT; "TCP/IP": what was on the wire beside it; "all"
    packets=LONG,  # frames in the rows TCP/IP and all
    bytes=LONG,
    to_broker_packets=LONG,
    to_broker_bytes=LONG,
    payload_bytes=LONG,
    retransmissions=LONG,  # DUP set, of MQTT packets; of TCP in the rows TCP/IP and all
    bytes_per_payload_byte=REAL,
    seconds=REAL,  # of the phase
    bytes_per_s=REAL,
)

TABLE = Table(
    TRAFFIC,
    grain=("run_id", "tap", "phase", "packet_type"),
    order=("position", "tap", Among("phase", PHASES), "phase", Among("packet_type", TYPES)),
)
