"""Which frames a tap takes, as a program of the kernel's classic packet filter (bpf(4), socket(7)): TCP of some ports.

The kernel runs it before a frame is copied, so that what is not of the study costs nothing and is never stored.
"""

import ctypes
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass

_LOAD_HALF, _LOAD_BYTE, _LOAD_WORD, _LOAD_HALF_X, _LOAD_HEADER_X = 0x28, 0x30, 0x20, 0x48, 0xB1
_JUMP_EQUAL, _RETURN = 0x15, 0x06
_ETHER_TYPE, _PROTOCOL, _HEADER = 12, 23, 14  # places in a frame
_IPV4, _TCP = 0x0800, 6
_PACKET_TYPE = 0xFFFFF000 + 4  # SKF_AD_OFF + SKF_AD_PKTTYPE
_FOR_OTHERS, _OUTGOING = 3, 4  # packet(7): what a switch sends to all, not knowing better, is nobody's traffic
_WHOLE = 0x40000
_SO_ATTACH_FILTER = 26
_Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, operand


@dataclass(frozen=True, slots=True)
class Taken:
    """What a tap takes: frames with one of the ports as their source, as their destination, or as either."""

    ports: tuple[int, ...] = ()  # none: all of TCP
    by_source: bool = True
    by_destination: bool = True
    with_outgoing: bool = True  # those that leave through the interface too


def program(taken: Taken) -> list[_Instruction]:
    """The filter; the last two instructions drop and take."""
    checks: list[_Instruction] = [(_LOAD_WORD, 0, 0, _PACKET_TYPE), _unless_drop(_FOR_OTHERS)]
    if not taken.with_outgoing:
        checks.append(_unless_drop(_OUTGOING))
    checks += [(_LOAD_HALF, 0, 0, _ETHER_TYPE), _if_drop_else(_IPV4)]
    checks += [(_LOAD_BYTE, 0, 0, _PROTOCOL), _if_drop_else(_TCP)]
    if not taken.ports:
        return _resolved([*checks, (_RETURN, 0, 0, _WHOLE)])
    checks.append((_LOAD_HEADER_X, 0, 0, _HEADER))
    for offset, is_asked in ((0, taken.by_source), (2, taken.by_destination)):
        if is_asked:
            checks.append((_LOAD_HALF_X, 0, 0, _HEADER + offset))
            checks += [(_JUMP_EQUAL, _TAKE, 0, port) for port in taken.ports]
    return _resolved([*checks, (_RETURN, 0, 0, 0)])


_TAKE, _DROP = -1, -2  # as jumps, before the places are known


def _if_drop_else(value: int) -> _Instruction:
    """Goes on where the value is this one."""
    return _JUMP_EQUAL, 0, _DROP, value


def _unless_drop(value: int) -> _Instruction:
    """Goes on where the value is another one."""
    return _JUMP_EQUAL, _DROP, 0, value


def _resolved(instructions: Sequence[_Instruction]) -> list[_Instruction]:
    """With two ends appended, and jumps to them as distances."""
    drop, take = len(instructions), len(instructions) + 1
    ends = {_DROP: drop, _TAKE: take}

    def distance(jump: int, place: int) -> int:
        return ends[jump] - place - 1 if jump in ends else jump

    resolved = [
        (code, distance(if_true, place), distance(if_false, place), operand)
        for place, (code, if_true, if_false, operand) in enumerate(instructions)
    ]
    return [*resolved, (_RETURN, 0, 0, 0), (_RETURN, 0, 0, _WHOLE)]


def attach(way: socket.socket, taken: Taken) -> None:
    """Has the kernel give this socket only what is taken."""
    instructions = program(taken)
    packed = b"".join(struct.pack("=HBBI", *each) for each in instructions)
    buffer = ctypes.create_string_buffer(packed)
    way.setsockopt(
        socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("HxxxxxxP", len(instructions), ctypes.addressof(buffer))
    )
