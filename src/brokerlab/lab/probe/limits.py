"""Payloads, and the limits that broker and client tell each other or that can only be found."""

from brokerlab.lab.probe.check import Check, both
from brokerlab.lab.probe.peer import Peer
from brokerlab.lab.probe.room import Room
from brokerlab.lab.probe.values import Broken, Unsupported, require
from brokerlab.load.packets import FIRST_FAILURE, Disconnect, PubAck, Publish
from brokerlab.load.properties import MAXIMUM_PACKET_SIZE, RECEIVE_MAXIMUM, number_of

_SMALL_PACKET = 300
_AT_ONCE = 2
_PUBLISHED = 6
_WATCHED_S = 0.15  # for what should not come
_TOO_LARGE = 0x95
_FIRST_BYTES = 1024
_PRECISION = 1.02  # where the search ends
_SILENCES = 2  # attempts without any answer, after which the search gives up
_BYTES_PER_S = 1 << 20  # the least that a broker is given time for
_LONGEST_SEND = 1000  # receive maxima above it are not filled


def _empty(room: Room) -> str:
    publisher, subscriber, topic = room.pair(qos=1)
    for qos in (0, 1):
        publisher.publish(topic, qos=qos)
    lengths = [len(message.payload) for message in subscriber.received(2)]
    require(lengths == [0, 0], f"two messages without payload came as {lengths}")
    return "two messages of 0 B came"


def _binary(room: Room) -> str:
    publisher, subscriber, topic = room.pair(qos=1)
    payload = bytes(range(256)) * 4
    publisher.publish(topic, payload, qos=1)
    require(subscriber.one().payload == payload, "the payload came changed")
    return "all 256 values of a byte came unchanged"


def _attempt(room: Room, subscriber: Peer, size: int) -> str:
    """How one payload of this size fared: "delivered", "refused" or "silence"."""
    publisher = room.peer("pub")
    payload = (b"%d " % size).ljust(size, b".")
    before, within_s = len(subscriber.messages), room.patience_s + size / _BYTES_PER_S
    publisher.send(Publish(room.topic("t"), payload, 1, 1))
    if not publisher.received_answer(within_s=within_s):
        return "refused" if publisher.is_closed else "silence"
    answer = publisher.answers.popleft()
    if not isinstance(answer, PubAck) or answer.reason_code >= FIRST_FAILURE:
        return "refused"
    publisher.disconnect()
    if len(subscriber.received(before + 1, within_s=within_s)) == before:
        raise Broken(f"a payload of {size:,} B was acknowledged and not delivered")
    require(subscriber.messages[-1].payload == payload, f"a payload of {size:,} B came changed")
    return "delivered"


def _largest(room: Room) -> str:
    subscriber = room.peer("sub")
    subscriber.subscribe(room.topic("t"), 1)
    largest = room.place.largest_bytes
    if (fared := _attempt(room, subscriber, largest)) == "delivered":
        return f"{largest:,} B delivered, where the search ends"
    low, high, silences, refusal = 0, largest, int(fared == "silence"), fared
    while not low or high / low > _PRECISION:
        middle = int((low * high) ** 0.5) if low else max(_FIRST_BYTES, high >> 6)
        if middle in (low, high) or silences > _SILENCES:
            break
        fared = _attempt(room, subscriber, middle)
        silences += fared == "silence"
        if fared == "delivered":
            low = middle
        else:
            high, refusal = middle, fared
    require(bool(low), f"no payload was delivered, not even one of {high:,} B")
    raise Unsupported(f"payloads up to {low:,} B are delivered, one of {high:,} B is not ({refusal})")


def _client_packet(room: Room) -> str:
    topic = room.topic("t")
    subscriber = room.peer("sub", properties=((MAXIMUM_PACKET_SIZE, _SMALL_PACKET),))
    subscriber.subscribe(topic, 1)
    publisher = room.peer("pub")
    publisher.publish(topic, bytes(2 * _SMALL_PACKET), qos=1)
    publisher.publish(topic, b"small", qos=1)
    require(subscriber.one().payload == b"small", f"a packet above the client's limit of {_SMALL_PACKET} B was sent")
    return f"the client's limit of {_SMALL_PACKET} B: the larger packet was not sent, the smaller one was"


def _server_packet(room: Room) -> str:
    publisher = room.peer("pub")
    largest = number_of(publisher.connack.properties, MAXIMUM_PACKET_SIZE)
    if largest is None or largest > room.place.largest_bytes:
        said = "no limit" if largest is None else f"{largest:,} B"
        raise Unsupported(f"CONNACK says {said}, above what is searched")
    publisher.send(Publish(room.topic("t"), bytes(largest), 1, 1))
    publisher.received_answer()
    require(not any(isinstance(answer, PubAck) for answer in publisher.answers), "a larger packet was taken")
    require(publisher.is_ended(), "a packet above the broker's own limit did not end the connection")
    codes = [answer.reason_code for answer in publisher.answers if isinstance(answer, Disconnect)]
    require(codes in ([], [_TOO_LARGE]), f"DISCONNECT says {codes}, not 0x95")
    return f"limit {largest:,} B, a larger packet was refused"


def _client_window(room: Room) -> str:
    """Two messages are left unanswered; one answer makes room for one more, at any time."""
    topic, publisher = room.topic("t"), room.peer("pub")
    subscriber = room.peer("sub", properties=((RECEIVE_MAXIMUM, _AT_ONCE),), acknowledges=False)
    room.require_granted(subscriber.subscribe(topic, 1), 1)
    for number in range(_PUBLISHED):
        publisher.publish(topic, bytes((number,)), qos=1)
    for answered in range(_PUBLISHED - _AT_ONCE + 1):
        expected = answered + _AT_ONCE
        count = len(subscriber.received(expected + 1, within_s=_WATCHED_S))  # one more than there may be
        require(
            count <= expected, f"{count - answered} messages unanswered, the client's receive maximum is {_AT_ONCE}"
        )
        count = len(subscriber.received(expected))
        require(count == expected, f"{answered} answered, and {count} of {expected} messages came")
        subscriber.send(PubAck(subscriber.messages[answered].packet_id or 0))
    return f"receive maximum {_AT_ONCE}: never more unanswered, one more for each answer"


def _server_window(room: Room) -> str:
    publisher = room.peer("pub")
    window = number_of(publisher.connack.properties, RECEIVE_MAXIMUM)
    if window is None or window > _LONGEST_SEND:
        raise Unsupported("CONNACK says no receive maximum" if window is None else f"receive maximum {window}")
    publisher.send(*(Publish(room.topic("t"), b"x", 2, each) for each in range(1, window + 2)))
    for _ in range(window + 1):
        if not publisher.received_answer():
            break
        answer = publisher.answers.popleft()
        if (code := getattr(answer, "reason_code", 0)) >= FIRST_FAILURE:
            return f"receive maximum {window}: one more was refused with {type(answer).__name__.upper()} {code:#04x}"
    if publisher.is_ended(within_s=_WATCHED_S):
        return f"receive maximum {window}: one more ended the connection"
    raise Unsupported(f"receive maximum {window}, but one more publication was taken")


CHECKS = (
    Check("payload.empty", "a message may have no payload", both("3.3.3"), _empty),
    Check("payload.binary", "payloads come unchanged", both("3.3.3"), _binary),
    Check("payload.largest", "large payloads are delivered", both("2.2.3", "2.1.4"), _largest, is_alone=True),
    Check("limit.client-packet", "no packet above the client's maximum", {5: "3.1.2.11.4"}, _client_packet),
    Check("limit.server-packet", "a packet above the broker's maximum is refused", {5: "3.2.2.3.6"}, _server_packet),
    Check("limit.client-window", "no more messages than the client's receive maximum", {5: "3.3.4"}, _client_window),
    Check("limit.server-window", "more than the broker's receive maximum is refused", {5: "3.3.4"}, _server_window),
)
