"""The three qualities of service as seen on the wire, and the order of messages."""

from brokerlab.lab.probe.check import Check, both, every
from brokerlab.lab.probe.peer import Peer
from brokerlab.lab.probe.room import Room
from brokerlab.lab.probe.values import Undecided, require
from brokerlab.load.packets import FIRST_FAILURE, PubAck, PubComp, Publish, PubRec, PubRel, SubAck, Subscribe
from brokerlab.load.properties import RECEIVE_MAXIMUM, number_of

_IN_TENS = 50
_IN_A_ROW = 110
_UNDER_WAY = 100
_FIXED_ID = 4711


def _once_at(room: Room, qos: int) -> Publish:
    """The one delivery of one publication at this QoS to a subscription at the same."""
    publisher, subscriber, topic = room.pair(qos=qos)
    publisher.publish(topic, b"once", qos=qos)
    message = subscriber.one()
    came = room.settle(publisher, subscriber, qos=qos)
    require(len(came) == 1, f"one publication came {len(came)} times")
    require(message.payload == b"once", "the payload is not what was published")
    require(message.qos == qos, f"published and subscribed at QoS {qos}, delivered at QoS {message.qos}")
    require(not message.dup, "a first delivery carries DUP")
    return message


def _qos_0(room: Room) -> str:
    _once_at(room, 0)
    return "PUBLISH in, one PUBLISH out, both without an identifier"


def _qos_1_in(room: Room) -> str:
    publisher = room.peer("pub")
    publisher.send(Publish(room.topic("t"), b"1", 1, _FIXED_ID))
    publisher.answer(PubAck, packet_id=_FIXED_ID)
    publisher.ping()  # and nothing else before the next answer
    return "PUBLISH, PUBACK with its identifier"


def _qos_1_out(room: Room) -> str:
    message = _once_at(room, 1)
    return f"delivered once at QoS 1 as packet {message.packet_id}"


def _qos_2_in(room: Room) -> str:
    publisher = room.peer("pub")
    publisher.send(Publish(room.topic("t"), b"2", 2, _FIXED_ID))
    publisher.answer(PubRec, packet_id=_FIXED_ID)
    publisher.send(PubRel(_FIXED_ID))
    publisher.answer(PubComp, packet_id=_FIXED_ID)
    publisher.ping()
    return "PUBLISH, PUBREC, PUBREL, PUBCOMP, all with its identifier"


def _qos_2_out(room: Room) -> str:
    publisher, subscriber, topic = room.pair(qos=2)
    subscriber.acknowledges = False
    publisher.publish(topic, b"2", qos=2)
    message = subscriber.one()
    require(message.qos == 2 and message.packet_id is not None, f"delivered at QoS {message.qos}")
    packet_id = message.packet_id or 0
    require(not subscriber.answers, "PUBREL came before PUBREC")
    subscriber.send(PubRec(packet_id))
    subscriber.answer(PubRel, packet_id=packet_id)
    subscriber.send(PubComp(packet_id))
    came = room.settle(publisher, subscriber)
    require(len(came) == 1, f"one publication came {len(came)} times")
    return "PUBLISH, PUBREC, PUBREL, PUBCOMP, once"


def _qos_2_repeated(room: Room) -> str:
    publisher, subscriber, topic = room.pair(qos=2)
    for dup in (False, True):
        publisher.send(Publish(topic, b"2", 2, _FIXED_ID, dup))
        publisher.answer(PubRec, packet_id=_FIXED_ID)
    publisher.send(PubRel(_FIXED_ID))
    publisher.answer(PubComp, packet_id=_FIXED_ID)
    subscriber.one()
    try:
        came = room.settle(publisher, subscriber, qos=2)
    except Undecided:
        if len(came := list(subscriber.messages)) < 2:
            raise
    require(len(came) == 1, f"a publication sent again before PUBREL was delivered {len(came)} times")
    return "sent twice before PUBREL, two PUBREC, one delivery"


def _qos_2_again(room: Room) -> str:
    """After PUBCOMP the identifier is free: the same one is a new message."""
    publisher, subscriber, topic = room.pair(qos=2)
    for _ in range(2):
        publisher.send(Publish(topic, b"2", 2, _FIXED_ID))
        publisher.answer(PubRec, packet_id=_FIXED_ID)
        publisher.send(PubRel(_FIXED_ID))
        publisher.answer(PubComp, packet_id=_FIXED_ID)
    require(len(subscriber.received(2)) == 2, "the second message with an identifier used before was not delivered")
    return "two messages with the same identifier, one after the other: two deliveries"


def _qos_2_many(room: Room) -> str:
    """More than brokers like to have under way: some take them all, acknowledge them all, and lose most."""
    publisher, subscriber, topic = room.pair(qos=2)
    most = min(_UNDER_WAY, number_of(publisher.connack.properties, RECEIVE_MAXIMUM) or _UNDER_WAY)
    packets = [Publish(topic, bytes((each,)), 2, each + 1) for each in range(most)]
    publisher.send(*packets)
    answered = [publisher.answer(PubRec).packet_id for _ in packets]
    publisher.send(*(PubRel(each) for each in answered))
    for _ in packets:
        publisher.answer(PubComp)
    came = len({message.payload for message in subscriber.received(most)})
    require(came == most, f"{most} were acknowledged to the end, and {came} of them delivered")
    return f"{most} handshakes under way at once: all delivered"


def _pubrel_unknown(room: Room) -> str:
    publisher = room.peer("pub")
    publisher.send(PubRel(_FIXED_ID))
    answer = publisher.answer(PubComp, packet_id=_FIXED_ID)
    if room.level == 5:
        require(answer.reason_code in (0x00, 0x92), f"PUBCOMP says {answer.reason_code:#04x}")
    return f"PUBCOMP {answer.reason_code:#04x}"


def _granted(room: Room) -> str:
    subscriber = room.peer("sub")
    filters = tuple((room.topic(str(qos)), qos) for qos in (2, 0, 1))
    subscriber.send(Subscribe(7, filters))
    codes = subscriber.answer(SubAck, packet_id=7).return_codes
    require(len(codes) == 3, f"three filters were answered with {len(codes)} codes")
    for (_, asked), code in zip(filters, codes, strict=True):
        require(code < FIRST_FAILURE, f"QoS {asked} was refused with {code:#04x}")
        require(code <= asked, f"QoS {asked} was asked for and QoS {code} granted")
    for (_, asked), code in zip(filters, codes, strict=True):
        room.require_granted(code, asked)
    return "one code a filter, in their order: 2, 0, 1"


def _lower_of_both(room: Room) -> str:
    publisher, wrong, granted = room.peer("pub"), [], {}
    subscriber = room.peer("sub")
    for asked in (0, 1, 2):
        granted[asked] = subscriber.subscribe(room.topic(str(asked)), asked)
        for qos in (0, 1, 2):
            publisher.publish(room.topic(str(asked)), bytes((qos,)), qos=qos)
    came = subscriber.received(9)
    require(len(came) == 9, f"{len(came)} of 9 messages came")
    for message in came:
        published, allowed = message.payload[0], granted[int(message.topic[-1])]
        if message.qos != min(published, allowed):
            wrong.append(f"published at {published}, granted {allowed}, delivered at {message.qos}")
    require(not wrong, "; ".join(wrong))
    return "nine pairs of QoS published and granted: delivered at the lower one"


def _dup_stays(room: Room) -> str:
    publisher, subscriber, topic = room.pair(qos=1)
    publisher.publish(topic, b"1", qos=1, dup=True)
    require(not subscriber.one().dup, "the publisher's DUP was passed on to a first delivery")
    return "published with DUP, delivered without"


def _in_order(room: Room, qos: int) -> str:
    """Some in tens, and some one by one, each after the handshake of the last: the latter is where Artemis fails."""
    publisher, subscriber, topic = room.pair(qos=qos)
    for first in range(0, _IN_TENS, 10):
        numbers = range(first, first + 10)
        packets = [Publish(topic, bytes((each,)), qos, each + 1 if qos else None) for each in numbers]
        publisher.send(*packets)
        _finish(publisher, packets)
    for each in range(_IN_TENS, _IN_A_ROW):
        publisher.publish(topic, bytes((each,)), qos=qos)
    got = [message.payload[0] for message in subscriber.received(_IN_A_ROW)]
    require(len(got) >= _IN_A_ROW, f"{len(got)} of {_IN_A_ROW} messages came")
    require(got == sorted(got), f"came in the order {', '.join(map(str, got))}")
    require(len(got) == len(set(got)), "messages came twice")
    return f"{_IN_A_ROW} messages in order"


def _finish(publisher: Peer, packets: list[Publish]) -> None:
    """Completes the handshakes, in whatever order the broker answers them."""
    if packets[0].qos == 1:
        for _ in packets:
            publisher.answer(PubAck)
    elif packets[0].qos == 2:
        for _ in packets:
            publisher.send(PubRel(publisher.answer(PubRec).packet_id))
        for _ in packets:
            publisher.answer(PubComp)


CHECKS = (
    Check("qos.0", "QoS 0: one PUBLISH in, one out", every("4.1", "4.3.1"), _qos_0),
    Check("qos.1-in", "QoS 1 in: PUBLISH, PUBACK", every("4.1", "4.3.2"), _qos_1_in),
    Check("qos.1-out", "QoS 1 out: delivered once at QoS 1", every("4.1", "4.3.2"), _qos_1_out),
    Check("qos.2-in", "QoS 2 in: PUBLISH, PUBREC, PUBREL, PUBCOMP", every("4.1", "4.3.3"), _qos_2_in),
    Check("qos.2-out", "QoS 2 out: PUBLISH, PUBREC, PUBREL, PUBCOMP", every("4.1", "4.3.3"), _qos_2_out),
    Check("qos.2-repeated", "QoS 2: sent again before PUBREL, delivered once", both("4.3.3"), _qos_2_repeated),
    Check("qos.2-again", "QoS 2: an identifier is free after PUBCOMP", both("4.3.3"), _qos_2_again),
    Check("qos.2-many", "QoS 2: many handshakes at once, all delivered", both("4.3.3"), _qos_2_many),
    Check("qos.pubrel-unknown", "PUBREL is answered, known or not", both("4.3.3", "3.7.2.1"), _pubrel_unknown),
    Check("qos.granted", "SUBACK has a code for each filter, in order", both("3.8.4"), _granted),
    Check("qos.lower", "delivered at the lower of QoS published and granted", both("3.8.4"), _lower_of_both),
    Check("qos.dup", "DUP of the publisher is not passed on", both("3.3.1.1"), _dup_stays),
    Check("order.qos-0", "order at QoS 0", both("4.6"), lambda room: _in_order(room, 0)),
    Check("order.qos-1", "order at QoS 1", both("4.6"), lambda room: _in_order(room, 1)),
    Check("order.qos-2", "order at QoS 2", both("4.6"), lambda room: _in_order(room, 2)),
)
