"""`brokerlab compare` on tables made by hand: differences, gates and exit codes."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli_program import Program

from brokerlab.errors import UserError
from brokerlab.pipeline.compare import changes_of_levels, changes_of_studies, known_metric, read_gate
from brokerlab.record.directory import StudyDirectory

pytestmark = pytest.mark.unit

UNITS = {"latency.p99": "ms", "throughput.delivered_per_s": "1/s"}


def write(folder: Path, name: str, rows: list[dict]) -> None:
    (folder / "tables" / name).mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), folder / "tables" / name / "part-0.parquet")


def cell(name: str, metric: str, mean: float, sd: float | None, n: int = 3) -> dict:
    about = {"cell": name, "metric": metric, "unit": UNITS[metric], "confidence_percent": 95.0}
    return {**about, "n": n, "mean": mean, "sd": sd}


@pytest.fixture
def before(tmp_path: Path) -> Path:
    rows = [
        cell("qos-0", "latency.p99", 10.0, 0.1),
        cell("qos-1", "latency.p99", 20.0, 0.1),
        cell("qos-0", "throughput.delivered_per_s", 1000.0, 1.0),
        cell("gone", "latency.p99", 1.0, 0.1),
    ]
    write(tmp_path / "before", "cells", rows)
    return tmp_path / "before"


@pytest.fixture
def after(tmp_path: Path) -> Path:
    rows = [
        cell("qos-0", "latency.p99", 12.0, 0.1),
        cell("qos-1", "latency.p99", 20.05, 0.1),
        cell("qos-0", "throughput.delivered_per_s", 1500.0, 1.0),
    ]
    write(tmp_path / "after", "cells", rows)
    return tmp_path / "after"


def test_a_change_within_the_resolution_is_not_told_apart(tmp_path, brokerlab):
    """2 ms more, by runs that hardly differ; but of the second every message may have come 3 ms earlier."""
    for name, mean, resolution in (("one", 10.0, 0.1), ("other", 12.0, 3.0)):
        write(tmp_path / name, "cells", [cell("qos-0", "latency.p99", mean, 0.1) | {"resolution": resolution}])
    done = brokerlab("compare", str(tmp_path / "one"), str(tmp_path / "other"))

    (change,), _ = changes_of_studies(*(StudyDirectory(tmp_path / name) for name in ("one", "other")))
    assert (change.resolution, change.answer) == (3.0, "not distinguishable")
    assert change.corrected_p < 0.001
    assert "2 ± 3" in done.stdout
    assert "not distinguishable (resolution)" in done.stdout


def comparison(**columns) -> dict:
    known = {
        "factor": "broker", "level_a": "a", "level_b": "b", "within": "qos=0", "metric": "latency.p99",
        "unit": "ms", "mean_a": 3.0, "mean_b": 5.0, "difference": -2.0, "low": -2.5, "high": -1.5,
        "corrected_p": 0.001, "is_tie": False, "answer": "better",
    }  # fmt: skip
    return known | columns


@pytest.fixture
def study(tmp_path: Path) -> Path:
    tied = {"level_a": "a", "level_b": "c", "mean_b": 3.2, "difference": -0.2, "low": -0.3, "high": -0.1}
    write(tmp_path / "one", "comparisons", [comparison(), comparison(**tied, is_tie=True, answer="equivalent")])
    return tmp_path / "one"


def test_second_less_first_in_every_cell_that_both_have(brokerlab: Program, before: Path, after: Path) -> None:
    done = brokerlab("compare", str(before), str(after), "--json")
    content = json.loads(done.stdout)
    found = {(each["metric"], each["place"]): each for each in content["differences"]}

    assert done.returncode == 0
    assert found["latency.p99", "qos-0"]["difference"] == pytest.approx(2.0)
    assert found["latency.p99", "qos-0"]["percent"] == pytest.approx(20.0)
    assert found["latency.p99", "qos-0"]["answer"] == "worse"
    assert found["latency.p99", "qos-1"]["answer"] == "not distinguishable"
    assert found["throughput.delivered_per_s", "qos-0"]["answer"] == "better"
    assert content["not_compared"] == ["gone"]


def test_a_broken_gate_is_the_exit_code(brokerlab: Program, before: Path, after: Path) -> None:
    done = brokerlab("compare", str(before), str(after), "--gate", "latency.p99 <= 10 %")

    assert done.returncode == 1
    assert done.stdout.splitlines()[-1].split() == ["latency.p99", "<=", "10", "%", "broken"]
    assert "gone" in done.stderr


def test_a_difference_within_the_noise_floor_is_printed_as_a_tie(brokerlab: Program, study: Path) -> None:
    """F-21."""
    done = brokerlab("compare", str(study), "broker=a", "broker=c")

    assert done.stdout.splitlines()[1].endswith("equivalent (tie)")


@pytest.mark.parametrize(
    ("rule", "verdict"),
    [
        ("latency.p99 <= 25 %", "kept"),
        ("latency.p99 <= 3 ms", "kept"),
        ("latency.p99 <= 10 %", "broken"),
        ("latency.p99<=0.1", "broken"),
        ("latency.p99 <= 20 %", "unknown"),
        ("latency.p99 >= -2 %", "kept"),
        ("throughput.delivered_per_s >= 40 %", "kept"),
        ("throughput.delivered_per_s >= 60 %", "broken"),
        ("latency.p50 <= 5 %", "unknown"),
    ],
)
def test_a_gate_goes_by_the_whole_interval_in_every_cell(before: Path, after: Path, rule: str, verdict: str) -> None:
    """A metric that nobody has decides nothing."""
    changes, _ = changes_of_studies(StudyDirectory(before), StudyDirectory(after))

    assert read_gate(rule).verdict(changes) == verdict


def test_single_runs_decide_no_gate(tmp_path: Path) -> None:
    for name, mean in (("a", 1.0), ("b", 9.0)):
        write(tmp_path / name, "cells", [cell("qos-0", "latency.p99", mean, None, n=1)])
    changes, _ = changes_of_studies(StudyDirectory(tmp_path / "a"), StudyDirectory(tmp_path / "b"))

    assert read_gate("latency.p99 <= 5 %").verdict(changes) == "unknown"
    assert [(change.difference, change.answer) for change in changes] == [(8.0, "not distinguishable")]


@pytest.mark.parametrize(("levels", "difference", "answer"), [(("a", "b"), 2.0, "worse"), (("b", "a"), -2.0, "better")])
def test_two_levels_of_one_study_either_way_round(study: Path, levels, difference: float, answer: str) -> None:
    (found,) = changes_of_levels(StudyDirectory(study), *(f"broker={level}" for level in levels))

    assert (found.difference, found.answer) == (difference, answer)
    assert found.low < found.difference < found.high
    assert (found.first, found.second) == ((3.0, 5.0) if levels == ("a", "b") else (5.0, 3.0))


@pytest.mark.parametrize(
    ("levels", "message"),
    [
        (("broker=a", "broker=bb"), "no level of broker 'bb'"),
        (("brocker=a", "brocker=b"), "'brocker'"),
        (("broker=a", "qos=0"), "levels of two factors"),
        (("broker=a", "b"), "'b' is not a level"),
    ],
)
def test_levels_that_are_none(study: Path, levels, message: str) -> None:
    with pytest.raises(UserError, match=message):
        changes_of_levels(StudyDirectory(study), *levels)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("latency.p99 < 5", "is not a rule"),
        ("latency.p9 <= 5", "no metric 'latency.p9'"),
        ("latency.p99 <= 5 s", "latency.p99 is in ms"),
    ],
)
def test_rules_that_are_none(rule: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_gate(rule)


def test_an_unknown_metric_gets_the_nearest() -> None:
    with pytest.raises(UserError) as refused:
        known_metric("latency.p9")

    assert "did you mean 'latency.p99'?" in refused.value.hint


def test_studies_without_a_common_cell(before: Path, tmp_path: Path) -> None:
    write(tmp_path / "x", "cells", [cell("qos-2", "latency.p99", 1.0, 0.1), cell("qos-3", "latency.p99", 1.0, 0.1)])

    with pytest.raises(UserError, match="share no cell"):
        changes_of_studies(StudyDirectory(before), StudyDirectory(tmp_path / "x"))
