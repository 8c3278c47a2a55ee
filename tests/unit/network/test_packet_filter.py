"""Which frames a tap takes, decided by the same program that the kernel runs (M-24)."""

import struct

import pytest

from brokerlab.network.packet_filter import Taken, program

LOAD = {0x28: (2, 0), 0x30: (1, 0), 0x48: (2, 1)}  # code -> bytes, relative to X


def runs(instructions, frame, kind):
    """The classic packet filter, as far as it is used."""
    place = accumulator = index = 0
    while True:
        code, if_true, if_false, operand = instructions[place]
        place += 1
        if code in LOAD:
            size, is_relative = LOAD[code]
            accumulator = int.from_bytes(frame[operand + is_relative * index :][:size], "big")
        elif code == 0x20:
            accumulator = kind
        elif code == 0xB1:
            index = 4 * (frame[operand] & 15)
        elif code == 0x15:
            place += if_true if accumulator == operand else if_false
        else:
            return operand > 0


def frame(source, destination, protocol=6, ether_type=0x0800, words=5):
    header = bytes([0x40 | words, 0, 0, 0, 0, 0, 0, 0, 64, protocol]) + bytes(4 * words - 10)
    return bytes(12) + struct.pack("!H", ether_type) + header + struct.pack("!HH", source, destination) + bytes(16)


HOST, OTHERS, OUTGOING = 0, 3, 4


@pytest.mark.parametrize(
    ("taken", "what", "kind", "is_taken"),
    [
        (Taken((1883, 8883)), frame(40000, 1883), HOST, True),
        (Taken((1883, 8883)), frame(8883, 40000), OUTGOING, True),
        (Taken((1883, 8883)), frame(40000, 22), HOST, False),
        (Taken((1883,)), frame(40000, 1883, words=8), HOST, True),
        (Taken((1883,)), frame(40000, 1883, protocol=17), HOST, False),
        (Taken((1883,)), frame(40000, 1883, ether_type=0x86DD), HOST, False),
        (Taken((1883,)), frame(40000, 1883), OTHERS, False),
        (Taken((1883,), by_source=False), frame(1883, 40000), HOST, False),
        (Taken((1883,), by_destination=False), frame(1883, 40000), HOST, True),
        (Taken((1883,), with_outgoing=False), frame(40000, 1883), OUTGOING, False),
        (Taken(), frame(5, 6), HOST, True),
        (Taken(), frame(5, 6, protocol=1), HOST, False),
    ],
)
def test_frames_of_the_study_alone_are_taken(taken, what, kind, is_taken):
    assert runs(program(taken), what, kind) is is_taken
