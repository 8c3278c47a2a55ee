"""The process that writes captures: `python -m brokerlab.network.capture_process`.

It gets packet sockets as open descriptors and a file for each, and writes pcap with times in nanoseconds, as the
kernel stamped them, until its standard input is closed. Then it says what it wrote and what the kernel had to drop.
"""

import json
import os
import select
import socket
import struct
import sys
from pathlib import Path
from typing import BinaryIO

_MAGIC_NS, _ETHERNET, _LONGEST = 0xA1B23C4D, 1, 0x40000
_SOL_PACKET, _PACKET_STATISTICS = 263, 6
_SO_TIMESTAMPNS = 35
_READS_AT_ONCE = 256
_STAMP, _RECORD = struct.Struct("qq"), struct.Struct("=IIII")


class Capture:
    """One socket and its file."""

    def __init__(self, descriptor: int, path: Path, most_bytes: int) -> None:
        self.socket = socket.socket(fileno=descriptor)
        self.socket.setblocking(False)
        self.path, self._left = path, most_bytes
        self.frames = self.beyond = self.dropped = 0
        self._file: BinaryIO = path.open("xb", buffering=1 << 20)
        self._file.write(struct.pack("=IHHiIII", _MAGIC_NS, 2, 4, 0, 0, _LONGEST, _ETHERNET))

    def take(self) -> None:
        """Writes what has come, at most so much at once that others get their turn."""
        for _ in range(_READS_AT_ONCE):
            try:
                frame, ancillary, _, _ = self.socket.recvmsg(_LONGEST, 64)
            except BlockingIOError:
                return
            self._write(frame, ancillary)

    def _write(self, frame: bytes, ancillary: list[tuple[int, int, bytes]]) -> None:
        seconds, nanoseconds = next(_STAMP.unpack_from(data) for _, kind, data in ancillary if kind == _SO_TIMESTAMPNS)
        size_bytes = _RECORD.size + len(frame)
        if size_bytes > self._left:
            self.beyond += 1
            return
        self._left -= size_bytes
        self._file.write(_RECORD.pack(seconds, nanoseconds, len(frame), len(frame)))
        self._file.write(frame)
        self.frames += 1

    def close(self) -> dict[str, object]:
        """The rest of what has come, and what there is to say."""
        self.take()
        _, self.dropped = struct.unpack("II", self.socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))
        self.socket.close()
        self._file.close()
        return {"file": str(self.path), "frames": self.frames, "dropped": self.dropped, "beyond_limit": self.beyond}


def main() -> None:
    most_bytes, *words = sys.argv[1:]
    captures = [
        Capture(int(descriptor), Path(path), int(most_bytes))
        for descriptor, path in zip(words[::2], words[1::2], strict=True)
    ]
    by_descriptor = {each.socket.fileno(): each for each in captures}
    poll = select.epoll()
    for descriptor in (sys.stdin.fileno(), *by_descriptor):
        poll.register(descriptor, select.EPOLLIN)
    print("up", flush=True)
    while True:
        ready = [descriptor for descriptor, _ in poll.poll()]
        for descriptor in ready:
            if descriptor in by_descriptor:
                by_descriptor[descriptor].take()
        if sys.stdin.fileno() in ready and not os.read(sys.stdin.fileno(), 1):
            break
    print(json.dumps([each.close() for each in captures]), flush=True)


if __name__ == "__main__":
    try:
        main()
    except OSError as problem:
        sys.exit(f"brokerlab: packets cannot be captured any more: {problem}")
