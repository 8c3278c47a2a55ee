"""What a workload takes from MQTT 5.0, as a frozen value."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Mqtt5:
    """What MQTT 5.0 adds; the sections are those of its specification."""

    user_properties: int = 0  # of each message, 3.3.2.3.7
    property_bytes: int = 20  # name and value of one user property
    metadata: bool = False  # unique_message_id, publisher_send_time and order as user properties
    topic_alias: bool = False  # 3.3.2.3.4
    expiry_s: int | None = None  # of each message, 3.3.2.3.3
    receive_maximum: int | None = None  # of every client of ours, 3.1.2.11.3
    subscription_identifiers: bool = False  # 3.8.2.1.2
    response_topic: bool = False  # with correlation data, 4.10
    session_expiry_s: int | None = None  # of every client of ours, 3.1.2.11.2
