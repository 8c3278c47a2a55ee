"""Cables made real: the kernel's own wire, a wire with netem, or two TAP devices for the carrier.

    veth       claims nothing
    netem      a wire whose two ends delay, lose, double, reorder and (with tbf) hold to a rate: tc-netem(8)
    userspace  the same by carrying.py, where the kernel has no netem

Segmentation is off at every end, so that a frame is a frame: losses, rates and counts are of what a wire would carry.
"""

import array
import fcntl
import socket
import struct
from collections.abc import Mapping
from enum import StrEnum

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from brokerlab.inside import inside
from brokerlab.network.carrier import Carried, open_tap
from brokerlab.network.layout import Cable, End
from brokerlab.network.namespaces import index_of, kernel_errors, lacks
from brokerlab.study.topology import Direction

_SIOCETHTOOL = 0x8946
_SET_TSO, _SET_GSO, _SET_GRO = 0x1F, 0x24, 0x2C
_FRAMES_BEFORE_CARRIER = 10_000  # that the kernel keeps for a process that is not scheduled for a while
_NETEM_FRAMES = 1_000_000  # the queue is stated in bytes, at the rate; this one must never be full
_SHORTEST_BURST_BYTES = 1600

Talks = Mapping[str, IPRoute]  # host -> what talks to the kernel in its namespace


class Kind(StrEnum):
    """What a cable is made of."""

    VETH = "veth"
    NETEM = "netem"
    USERSPACE = "userspace"


def kind_of(cable: Cable, *, has_netem: bool) -> Kind:
    if cable.link.is_plain:
        return Kind.VETH
    return Kind.NETEM if has_netem else Kind.USERSPACE


def has_netem(talk: IPRoute) -> bool:
    """Whether the kernel has it: tried on a loopback of ours, because it may be a module that is loaded when asked."""
    try:
        talk.tc("add", "netem", index=1, handle="1:", delay=1000)
    except NetlinkError as problem:
        if lacks(problem):
            return False
        raise
    talk.tc("del", index=1, handle="1:", parent="root")
    return True


def lay_wire(cable: Cable, talks: Talks, namespaces: Mapping[str, str]) -> None:
    """The kernel's wire between the two ends."""
    first, second = cable.first, cable.second
    with kernel_errors(f"the cable {cable.name}"):
        talks[first.host].link(
            "add",
            ifname=first.interface,
            kind="veth",
            peer={"ifname": second.interface, "net_ns_fd": namespaces[second.host]},
        )
    for end in (first, second):
        with inside(namespaces[end.host]):
            _segment_nothing(end.interface)


def lay_taps(cable: Cable, talks: Talks, namespaces: Mapping[str, str]) -> Carried:
    """Two ends for the carrier."""
    ends = [open_tap(namespaces[end.host], end.interface) for end in (cable.first, cable.second)]
    for end in (cable.first, cable.second):
        with kernel_errors(f"the cable {cable.name}"):
            index = index_of(talks[end.host], end.interface)
            talks[end.host].link("set", index=index, txqlen=_FRAMES_BEFORE_CARRIER)
    return Carried(cable.name, ends[0], ends[1], cable.link)


def emulate(cable: Cable, talks: Talks) -> None:
    """Has both ends of a wire do what is claimed of the direction that leaves there."""
    for end, direction in ((cable.first, cable.link.there), (cable.second, cable.link.back)):
        with kernel_errors(f"netem at {end.host}"):
            _emulate(talks[end.host], end, direction)


def _emulate(talk: IPRoute, end: End, direction: Direction) -> None:
    """Netem first, and what it lets go at the rate of a token bucket below it."""
    index = index_of(talk, end.interface)
    talk.tc(
        "replace",
        "netem",
        index=index,
        handle="1:",
        delay=round(direction.delay_ms * 1000),
        jitter=round(direction.jitter_ms * 1000),
        loss=direction.loss_percent,
        loss_corr=direction.correlation_percent,
        duplicate=direction.duplicate_percent,
        prob_reorder=direction.reorder_percent,
        limit=_NETEM_FRAMES,
    )
    if direction.rate_bits_per_s is not None:
        rate_bytes_per_s = direction.rate_bits_per_s / 8
        talk.tc(
            "replace",
            "tbf",
            index=index,
            handle="2:",
            parent="1:1",
            rate=round(rate_bytes_per_s),
            burst=max(_SHORTEST_BURST_BYTES, round(rate_bytes_per_s / 250)),
            limit=direction.longest_queue_bytes,
        )


def _segment_nothing(interface: str) -> None:
    """Switches off what makes one large frame of several."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for command in (_SET_TSO, _SET_GSO, _SET_GRO):
            value = array.array("B", struct.pack("II", command, 0))
            address, _ = value.buffer_info()
            fcntl.ioctl(control.fileno(), _SIOCETHTOOL, struct.pack("16sP8x", interface.encode(), address))
