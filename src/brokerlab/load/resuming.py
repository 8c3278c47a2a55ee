"""What a publisher sends again when it takes up its session on another connection (MQTT 3.1.1 section 4.4)."""

import numpy as np
from numpy.typing import NDArray

from brokerlab.load import wire
from brokerlab.load.features5 import tell_again
from brokerlab.load.messages import Messages
from brokerlab.load.packets import PubRel
from brokerlab.load.ring import ACKED, Ring

_DUP = 0x08
_MANY = 4096


class Received:
    """Identifiers of QoS 2 messages that the broker has: it has sent PUBREC for them."""

    def __init__(self) -> None:
        self._identifiers: set[int] = set()

    def __contains__(self, identifier: int) -> bool:
        return identifier in self._identifiers

    def clear(self) -> None:
        self._identifiers.clear()

    def note(self, releases: NDArray[np.uint8], oldest: int, following: int) -> None:
        """Takes the PUBRELs that answer them; messages from `oldest` to `following` are in flight."""
        self._identifiers.update((releases[2::4].astype(np.int64) << 8 | releases[3::4]).tolist())
        if len(self._identifiers) > _MANY:  # most of them are completed by now
            self._identifiers &= {wire.packet_id(seq) for seq in range(oldest, following)}


def again(seq: int, messages: Messages, ring: Ring, received: Received | None, level: int) -> bytes:
    """The message with DUP, or where the broker has it already, its release; which of both is noted in the ring."""
    packet_id, marks, place = wire.packet_id(seq), ring.rows[ACKED], ring.place(seq)
    marks[place] &= ~wire.RECOVERED
    if received is not None and packet_id in received:
        marks[place] |= wire.RECOVERED
        return PubRel(packet_id).encode(level)
    tell_again(messages)  # each in full: a broker that has one already may pass over it, and over what it tells
    block = messages.build(seq, ring.intended(seq, 1)[0])
    packet = bytearray(b"".join(piece.data for piece in block))
    packet[0] |= _DUP
    return bytes(packet)
