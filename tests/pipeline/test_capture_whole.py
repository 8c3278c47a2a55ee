"""A capture that tasks read as a whole, each its share of the connections, without Spark."""

from collections import Counter

import pytest
from capture_files import pcap, pcapng, write
from capture_reading import Read, ten_messages

from brokerlab.pipeline.capture import whole
from brokerlab.pipeline.capture.frames import TALLIES
from brokerlab.pipeline.capture.source import CaptureFile

pytestmark = pytest.mark.pipeline


class Kept:
    """A sink that keeps what it is given."""

    is_hashed = True

    def __init__(self):
        self.parts, self.packets, self.counts, self.segments = [], [], [], 0

    def part(self, row):
        self.parts.append(row["part"])
        yield from ()

    def begin(self, row):
        self.share = row["share"]

    def add(self, key, packets):
        self.packets += [(key.client, *row) for row in packets.tolist()]
        yield from ()

    def count(self, segments, fresh):
        self.segments += len(segments)

    def close(self, counts):
        self.counts.append(counts)

    def end(self):
        yield from ()


@pytest.mark.parametrize("shares", [1, 2, 3])
@pytest.mark.parametrize("form", [pcap, pcapng])
def test_a_whole_file_in_shares_gives_what_its_parts_give(tmp_path, monkeypatch, shares, form):
    monkeypatch.setattr(whole, "_MOST_AT_ONCE", 50)
    monkeypatch.setattr(whole, "_FED_AT_ONCE", 7)
    talks = [ten_messages(client=("10.0.0.1", 2000 + number)) for number in range(12)]
    frames = sorted((frame for talk in talks for frame in talk.frames), key=lambda frame: frame.at_ns)
    path = write(tmp_path / "a", form(frames)[:-11])  # the last frame is not all there
    read, kept = Read(path, split_bytes=500), [Kept() for _ in range(shares)]
    for share, sink in enumerate(kept):
        row = {"share": share, "shares": shares}
        assert list(whole.WholeFile(CaptureFile(str(path)), row, sink).follow()) == []

    assert sorted(row[1:] for sink in kept for row in sink.packets) == sorted(map(tuple, read.packets.tolist()))
    assert sum(
        (
            Counter({name: getattr(each, name) for name in ("gaps", "connections")})
            for sink in kept
            for each in sink.counts
        ),
        Counter(),
    ) == Counter(connections=12)
    (part,) = kept[0].parts
    assert {name: part[name] for name in TALLIES} == read.tallies
    assert part["problem"].startswith("the file ends within a record")
    assert [sink.parts for sink in kept[1:]] == [[]] * (shares - 1)
    assert sum(sink.segments for sink in kept) == read.tallies["frames"]


def test_a_whole_file_that_is_no_capture_is_told_once(tmp_path):
    path, sinks = write(tmp_path / "a", b"no capture at all"), [Kept(), Kept()]
    for share, sink in enumerate(sinks):
        list(whole.WholeFile(CaptureFile(str(path)), {"share": share, "shares": 2}, sink).follow())

    assert [len(sink.parts) for sink in sinks] == [1, 0]
    assert "not a capture" in sinks[0].parts[0]["problem"]
