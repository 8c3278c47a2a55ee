"""Packets and frames counted by phase and type; sums, which merge by adding."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from brokerlab.pipeline.capture import frames, mqtt
from brokerlab.pipeline.capture.compiled import Longs
from brokerlab.pipeline.capture.taps import Phases

FRAMES = "frames"
_DUP = 8 << 4  # in KIND
_TYPES = len(mqtt.TYPES)


class Counting:
    """Of one tap; row 0 of a phase is its frames, the others are types of packets."""

    def __init__(self, phases: Phases) -> None:
        self._phases = phases
        self._cells = len(phases.names) * _TYPES
        self._sums = {
            name: np.zeros(self._cells, dtype=np.int64)
            for name in (
                "packets", "bytes", "to_broker_packets", "to_broker_bytes", "payload_bytes", "retransmissions"
            )
        }  # fmt: skip

    def add_segments(self, segments: Longs, fresh: Longs) -> None:
        """Frames, by their bytes on the wire; sent again is what has data that was there before."""
        cell = self._phases.of(segments[:, frames.AT]) * _TYPES
        sizes, length = segments[:, frames.SIZES], segments[:, frames.SEQ] & 0xFFFFFFFF
        to_broker = (sizes & frames.TO_BROKER) > 0
        self._add(cell, sizes >> 40, to_broker)
        self._sum("retransmissions", cell, (length > 0) & (fresh < length))

    def add_packets(self, packets: Longs) -> None:
        kind = packets[:, mqtt.KIND]
        cell = self._phases.of(packets[:, mqtt.FIRST_NS]) * _TYPES + (kind & 15)
        self._add(cell, packets[:, mqtt.SIZE], (kind & mqtt.FROM_CLIENT) > 0)
        self._sum("payload_bytes", cell, np.maximum(packets[:, mqtt.PAYLOAD_BYTES], 0))
        self._sum("retransmissions", cell, ((kind & 15) == mqtt.PUBLISH) & ((kind & _DUP) > 0))

    def _add(self, cell: Longs, size: Longs, to_broker: Any) -> None:
        self._sums["packets"] += np.bincount(cell, minlength=self._cells)
        self._sum("bytes", cell, size)
        self._sums["to_broker_packets"] += np.bincount(cell[to_broker], minlength=self._cells)
        self._sum("to_broker_bytes", cell[to_broker], size[to_broker])

    def _sum(self, name: str, cell: Longs, values: Any) -> None:
        # bincount adds floats: exact up to 2^53.
        self._sums[name] += np.bincount(cell, weights=values, minlength=self._cells).astype(np.int64)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Of schemas.captured.COUNTED: cells with something in them."""
        for cell in np.flatnonzero(self._sums["packets"]).tolist():
            phase, kind = divmod(cell, _TYPES)
            yield {
                "phase": self._phases.names[phase],
                "packet_type": mqtt.TYPES[kind] if kind else FRAMES,
                **{name: int(sums[cell]) for name, sums in self._sums.items()},
            }
