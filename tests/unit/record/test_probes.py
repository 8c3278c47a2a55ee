"""Kept probes: written whole, read back, and told apart from what is none."""

import json

import pytest

from brokerlab.errors import UserError
from brokerlab.record.probes import keep_probe, kept, read_probes


def test_a_probe_comes_back_with_what_tells_it_from_others(tmp_path):
    keep_probe(tmp_path / "probes", "mosquitto@2.1.2", "bridge", {"version": "2.1.2", "nodes": 3})

    (probe,), problems = read_probes(tmp_path / "probes")

    assert not problems
    assert {name: probe[name] for name in ("driver", "kind", "version", "nodes")} == {
        **{"driver": "mosquitto@2.1.2", "kind": "bridge"},
        **{"version": "2.1.2", "nodes": 3},
    }
    assert probe["made_at"].endswith("+00:00")


def test_a_later_probe_takes_the_place_of_an_earlier_one(tmp_path):
    keep_probe(tmp_path, "nats", "cluster", {"nodes": 3})
    keep_probe(tmp_path, "nats", "cluster", {"nodes": 5})

    (probe,), _ = read_probes(tmp_path)

    assert probe["nodes"] == 5


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"format": 1, "driver": "na', "Unterminated string"),
        ("[]", "its format is None"),
        ('{"format": 2, "driver": "nats"}', "its format is 2, and this brokerlab reads 1"),
        ('{"format": 1, "driver": "nats", "made_at": "2026"}', "does not say its kind"),
    ],
)
def test_a_file_that_is_no_probe_is_named_and_the_others_still_count(tmp_path, text, said):
    keep_probe(tmp_path, "nats", "cluster", {})
    kept(tmp_path, "broken", "bridge").write_text(text)

    probes, (problem,) = read_probes(tmp_path)

    assert [probe["driver"] for probe in probes] == ["nats"]
    assert "broken.bridge.json: the probe cannot be read" in problem
    assert said in problem


def test_without_a_folder_there_are_none(tmp_path):
    assert read_probes(tmp_path / "probes") == ((), ())


def test_a_place_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "probes").write_text(json.dumps({}))

    with pytest.raises(UserError, match="the probe cannot be kept"):
        keep_probe(tmp_path / "probes", "nats", "cluster", {})
