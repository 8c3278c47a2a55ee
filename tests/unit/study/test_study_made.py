"""Files that are made (M-20), and what varies beside QoS 0."""

import hashlib
from pathlib import Path

import pytest

from brokerlab.study.made import RECORDS, made_file
from brokerlab.study.problems import RuleError
from brokerlab.study.replay import parse
from brokerlab.study.values import Record


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKERLAB_CACHE", str(tmp_path))


def test_whole_day_has_as_many_records_as_the_papers_and_the_same_bytes_everywhere() -> None:
    data = made_file({"made": "bus-gps"}).read_bytes()
    records = parse(data, record=Record.CSV, header=True, time="time", key="vehicle")

    assert records.count == RECORDS == 218_772
    assert records.offsets_ns is not None
    assert 86_000 < records.offsets_ns[-1] / 1e9 < 86_400  # a day, in order, or parse would refuse it
    assert len(set(records.keys or ())) == 440
    assert hashlib.sha256(data).hexdigest() == "b82565a0410d4dea2559087d556de71475f741b9fefeb5f3e92e2d4a4b3bfe48"


def test_seed_and_count_make_another_file() -> None:
    first, other, fewer = (
        made_file({"made": "bus-gps", "records": records, "seed": seed}).read_text()
        for records, seed in ((50, 1), (50, 2), (20, 1))
    )
    assert first != other
    assert len(fewer.splitlines()) == 21


@pytest.mark.parametrize(
    ("written", "rule"),
    [
        ({"made": "bus-gsp"}, "bus-gps"),
        ({"made": "bus-gps", "records": 0}, "from 1 to"),
        ({"made": "bus-gps", "lines": 3}, "no 'lines'"),
    ],
)
def test_what_cannot_be_made_is_refused(written: dict[object, object], rule: str) -> None:
    with pytest.raises(RuleError) as refused:
        made_file(written)
    assert rule in str(refused.value) or rule == refused.value.nearest
