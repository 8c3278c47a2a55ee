"""What a connection is once it is open, what may come over it beside messages, and how it ends.

How it is opened is in opening.py.
"""

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from brokerlab.errors import RunError
from brokerlab.load.broken import broken
from brokerlab.load.features5 import longest_properties
from brokerlab.load.packets import LEVELS, REASONS, ConnAck, Disconnect, Packet, Publish, connack_reason
from brokerlab.load.properties import (
    MAXIMUM_PACKET_SIZE,
    MAXIMUM_QOS,
    RECEIVE_MAXIMUM,
    SERVER_KEEP_ALIVE,
    TOPIC_ALIAS_MAXIMUM,
    described,
    number_of,
)
from brokerlab.load.sessionlog import SessionLog
from brokerlab.load.shapes import packet_bytes
from brokerlab.load.spec import Client
from brokerlab.load.stream import Stream, send_all
from brokerlab.load.topics import own_topics
from brokerlab.study.identity import largest_payload_bytes
from brokerlab.study.values import SessionKind, Workload

_MOST_IN_FLIGHT = 65_535
_PINGRESP, _DISCONNECT = 13, 14
_GOODBYE_S = 2.0


@dataclass(frozen=True, slots=True)
class Session:
    """An open connection with its accepted CONNECT, and what the broker said of itself in CONNACK."""

    client: Client
    stream: Stream  # does not block
    level: int  # of the protocol
    receive_maximum: int = _MOST_IN_FLIGHT
    keep_alive_s: int = 60  # what counts: the broker may ask for another
    is_resumed: bool = False  # the broker still had the client's session, or should have it and cannot say so
    aliases: int = 0  # topics of a connection that may have one


def note_stages(client: Client, stream: Stream, *, log: SessionLog) -> None:
    """The handshakes of a connection as events, and once for each way that they ended what was agreed on."""
    for stage in stream.stages:
        log.add(client, stage.event, began_ns=stage.began_ns, at_ns=stage.at_ns)
        agreed = f"{stage.event}: {stage.detail}"
        if stage.detail and agreed not in log.agreed:
            log.agreed.add(agreed)
            log.add(client, agreed, at_ns=stage.at_ns)


def session_of(
    client: Client, stream: Stream, answer: Packet, *, level: int, workload: Workload, log: SessionLog
) -> Session:  # fmt: skip
    """What the broker's CONNACK allows; RunError where that is less than the run needs."""
    if not isinstance(answer, ConnAck):
        raise RunError(f"{client.name}: the broker answered CONNECT with {answer}")
    if code := answer.return_code:
        reason = connack_reason(level, code)
        raise RunError(f"{client.name}: the broker refused the connection: {reason} (code {code:#04x})")
    if said := answer.properties:
        log.add(client, f"connack properties: {described(said)}")
    highest = number_of(said, MAXIMUM_QOS)
    if highest is not None and workload.qos > highest:
        raise RunError(f"{client.name}: the broker takes QoS {highest} at most, and the run needs QoS {workload.qos}")
    largest = number_of(said, MAXIMUM_PACKET_SIZE)
    if largest is not None and (needed := publish_bytes(client, workload, level=level)) > largest:
        limit = f"the broker takes packets of {largest} bytes at most"
        raise RunError(f"{client.name}: {limit}, and those of the run have up to {needed}")
    aliases = number_of(said, TOPIC_ALIAS_MAXIMUM) or 0
    if workload.mqtt5.topic_alias and level == 5 and not aliases:
        raise RunError(f"{client.name}: the broker allows no topic alias, and the run needs one")
    receive_maximum = number_of(said, RECEIVE_MAXIMUM)
    keep_alive_s = number_of(said, SERVER_KEEP_ALIVE)
    return Session(
        client,
        stream,
        level,
        _MOST_IN_FLIGHT if receive_maximum is None else receive_maximum,
        workload.clients.keep_alive_s if keep_alive_s is None else keep_alive_s,
        answer.session_present or (not says_resumed(level) and workload.clients.session is SessionKind.PERSISTENT),
        aliases,
    )


def says_resumed(level: int) -> bool:
    """Whether a CONNACK tells of a session that was there: not in MQTT 3.1, where the byte has no meaning.

    A session that was asked for is taken as kept there: whoever forgot its handshakes of QoS 2 would take what is sent
    again for new, and blame the broker for it.
    """
    return level > LEVELS["3.1"]


def publish_bytes(client: Client, workload: Workload, *, level: int) -> int:
    """The length of the largest PUBLISH of a publisher."""
    topic_bytes = max(len(topic.encode()) for topic in own_topics(client, workload))
    head = 2 + topic_bytes + (2 if workload.qos else 0) + (longest_properties(client, workload) if level == 5 else 0)
    return packet_bytes(head + largest_payload_bytes(workload))


def pass_over(view: NDArray[np.uint8], at: int, *, level: int) -> int:
    """The place after a PINGRESP; anything else that is no message and no acknowledgement ends the connection."""
    if view[at] == _PINGRESP << 4 and view[at + 1] == 0:
        return at + 2
    kind = int(view[at]) >> 4
    if kind == _DISCONNECT and level == 5:
        code = int(view[at + 2]) if view[at + 1] else 0
        raise ConnectionAbortedError(f"the broker disconnected: {REASONS.get(code, 'unknown reason')} ({code:#04x})")
    raise broken(view[at:], level=level, otherwise=f"a packet of type {kind}, which has no place here")


def clear_retained(client: Client, stream: Stream, workload: Workload) -> int:
    """Has the broker forget what it retained (section 3.3.1.3), so that the next run finds nothing of this one.

    How many publications that took; at QoS 0 and empty.
    """
    if not workload.retain:
        return 0
    empty = [Publish(topic, retain=True) for topic in own_topics(client, workload)]
    packets = b"".join(message.encode(LEVELS[workload.protocol]) for message in empty)
    try:
        send_all(stream, packets, time.monotonic() + _GOODBYE_S)
    except OSError:  # a broker that is gone has forgotten
        return 0
    return len(empty)


def disconnect(client: Client, stream: Stream, *, log: SessionLog, after: Workload | None = None) -> None:
    """Says goodbye and closes; a broker that was faster is as good. A publisher leaves nothing retained behind."""
    if after is not None:
        clear_retained(client, stream, after)
    try:
        send_all(stream, Disconnect().encode(), time.monotonic() + _GOODBYE_S)
        stream.finish()
        log.add(client, "disconnect")
    except OSError as problem:
        log.add(client, f"disconnect failed: {problem.strerror or problem}", code=problem.errno)
    finally:
        stream.close()
