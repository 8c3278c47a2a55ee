import json
import sys
import time

import pytest

from brokerlab.brokers.base import Node
from brokerlab.brokers.port import free_port
from brokerlab.brokers.process import BrokerProcess
from brokerlab.errors import RunError
from brokerlab.lab.calibrate import require_equal
from brokerlab.lab.calibration import calibration_path, calibration_section, store_calibration

pytestmark = pytest.mark.unit


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_a_machine_without_calibration_says_how_to_get_one():
    assert calibration_section() == {
        "value": None,
        "reason": "this machine was never calibrated: brokerlab calibrate",
    }


def test_what_was_kept_is_found_again(cache):
    path = store_calibration({"format": 1, "qos0": {"published_per_s": 1.0}})

    assert path.is_relative_to(cache / "brokerlab")
    assert calibration_section() == {"value": {"format": 1, "qos0": {"published_per_s": 1.0}}, "reason": None}


def test_a_damaged_calibration_is_null_with_its_reason():
    store_calibration({"format": 1})
    calibration_path().write_text("{", encoding="utf-8")

    section = calibration_section()

    assert section["value"] is None
    assert "cannot be read" in section["reason"]


def test_each_size_of_payload_is_kept_beside_the_usual_one_and_replaces_its_like():
    for number, size in enumerate((1024, 64, 256, 1024)):
        store_calibration({"format": 1, "payload_bytes": size, "number": number})

    assert calibration_section()["value"] == {
        "format": 1,
        "payload_bytes": 64,
        "number": 1,
        "others": [
            {"format": 1, "payload_bytes": 256, "number": 2},
            {"format": 1, "payload_bytes": 1024, "number": 3},
        ],
    }


@pytest.mark.parametrize(("ours", "theirs"), [(5, 4), (4, 5), (0, 0)])
def test_counts_that_disagree_or_say_nothing_are_no_calibration(tmp_path, ours, theirs):
    said = json.dumps({"received": theirs})
    node = Node((sys.executable, "-c", f"print('{said}')"), "127.0.0.1", free_port("127.0.0.1"))
    with BrokerProcess(node, folder=tmp_path / "0") as broker:
        while broker.is_alive():
            time.sleep(0.01)

        if theirs:
            require_equal(broker, "received", theirs)
        with pytest.raises(RunError, match=f"received {theirs} messages, the worker counts {ours}"):
            require_equal(broker, "received", ours)
