"""The ledger's counts."""

from brokerlab.pipeline.schemas.kinds import INT, LONG, REAL, TEXT, Table, schema

DELIVERY = schema(
    run_id=TEXT,
    cell=TEXT,
    qos_asked=INT,
    qos_granted=INT,  # null: arrivals at a subscriber that the manifest does not know
    contract=TEXT,
    identity=TEXT,  # "order": what was delivered is counted, which one it was is not known
    published=LONG,
    acknowledged=LONG,  # null at QoS 0, as the two others about acknowledgements
    never_acknowledged=LONG,
    expected=LONG,
    delivered=LONG,
    resized=LONG,  # of those: with another payload size than published, as after a transformer; null as `late`
    late=LONG,  # of those: more than analysis.late after the intended time; null by order where some were lost
    lost=LONG,
    acknowledged_lost=LONG,
    lost_there=LONG,  # this and the next: of those lost, on the way to a device and back; null without devices
    lost_back=LONG,
    duplicated=LONG,  # this, the next and reordered: null with identity by order
    duplicated_flagged=LONG,
    overlapping=LONG,  # once more for another filter of the subscriber, or its next subscription: MQTT allows that
    reordered=LONG,
    stale=LONG,  # retained, but before the last acknowledged one of its topic
    unexpected=LONG,
    crossing_expected=LONG,  # this and the next: from one node to another; null where the broker has one node
    crossing_delivered=LONG,
    failure_percent=REAL,
    drop_percent=REAL,  # of those published: not known to have reached the broker; this and the next null at QoS 0
    availability_percent=REAL,
    verdict=TEXT,  # kept | broken | unknown
    doubt=TEXT,  # why it is unknown
)

TABLE = Table(DELIVERY, grain=("run_id", "qos_asked", "qos_granted"), order=("position", "qos_asked", "qos_granted"))
