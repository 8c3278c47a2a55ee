"""Packets in a few words: what the evidence of a check is written in.

    sub> SUBSCRIBE #1 ~/t q1; sub< SUBACK #1 1; pub> PUBLISH q0 ~/t 5 B; sub< PUBLISH q1 #1 ~/t 5 B

`>` is sent by us, `<` by the broker, and ~ stands for the check's own part of the topic tree.
"""

from brokerlab.load.packets import (
    ConnAck,
    Connect,
    Disconnect,
    Packet,
    Publish,
    SubAck,
    Subscribe,
    UnsubAck,
    Unsubscribe,
)
from brokerlab.load.properties import Properties, described

_SHOWN = 24  # entries of each end of a long trace
_LONGEST_TOPIC = 60


def words(packet: Packet, base: str) -> str:
    """One packet; `base` is the part of its topics that is left out."""
    name = type(packet).__name__.upper()
    match packet:
        case Connect(client_id, keep_alive_s, clean_session, will):
            ends = f" will q{will.qos}{' retain' if will.retain else ''}" if will else ""
            said = f"id={client_id} clean={clean_session:d} keep-alive={keep_alive_s}{ends}"
        case ConnAck(return_code, session_present):
            said = f"{return_code:#04x} present={session_present:d}"
        case Publish():
            said = _publish(packet, base)
        case Subscribe(packet_id, filters):
            said = f"#{packet_id} " + ", ".join(f"{_topic(each, base)} q{_options(qos)}" for each, qos in filters)
        case Unsubscribe(packet_id, filters):
            said = f"#{packet_id} " + ", ".join(_topic(each, base) for each in filters)
        case SubAck(packet_id, codes) | UnsubAck(packet_id, codes):
            said = f"#{packet_id} " + ",".join(f"{code:#04x}" for code in codes)
        case Disconnect(reason_code):
            said = f"{reason_code:#04x}"
        case _:
            said = _acknowledgement(packet)
    return f"{name} {said}".strip() + _properties(getattr(packet, "properties", ()), base)


def joined(trace: list[str]) -> str:
    """The trace on one line; the middle of a long one is only counted."""
    if len(trace) > 2 * _SHOWN:
        left_out = f"… {len(trace) - 2 * _SHOWN} more …"
        trace = [*trace[:_SHOWN], left_out, *trace[-_SHOWN:]]
    return "; ".join(trace)


def _publish(packet: Publish, base: str) -> str:
    number = f" #{packet.packet_id}" if packet.packet_id is not None else ""
    flags = (" dup" if packet.dup else "") + (" retain" if packet.retain else "")
    return f"q{packet.qos}{number}{flags} {_topic(packet.topic, base)} {len(packet.payload)} B"


def _acknowledgement(packet: Packet) -> str:
    packet_id, code = getattr(packet, "packet_id", None), getattr(packet, "reason_code", 0)
    return " ".join([*([f"#{packet_id}"] if packet_id is not None else []), *([f"{code:#04x}"] if code else [])])


def _topic(topic: str, base: str) -> str:
    short = topic.replace(base, "~") if base else topic
    return repr(short if len(short) <= _LONGEST_TOPIC else short[:_LONGEST_TOPIC] + "…")[1:-1] or "''"


def _options(options: int) -> str:
    return str(options) if options < 3 else f"{options & 3} options {options:#04x}"


def _properties(properties: Properties, base: str) -> str:
    return f" {{{described(properties).replace(base, '~')}}}" if properties else ""
