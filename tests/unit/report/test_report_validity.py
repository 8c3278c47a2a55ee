"""What the report says of the meter: guards, what broker and load share, and the ceilings of a calibration."""

from dataclasses import asdict, fields, replace

import pytest
from report_values import cell_id, results_of

from brokerlab.lab.setups import SetUp
from brokerlab.report.ceilings import FACTS, ceilings, ceilings_text
from brokerlab.report.cells import groups
from brokerlab.report.validity import guards_text, threats
from brokerlab.study.values import Guards

pytestmark = pytest.mark.unit


def results(*meters, **facts):
    found = results_of({("a", 0): (1.0, 0.9, 1.1)}, runs=max(1, len(meters)))
    return replace(
        found, manifests={f"{cell_id('a', 0)}/{n}": {"meter": meter} | facts for n, meter in enumerate(meters, start=1)}
    )


def first_threat(*meters):
    found = results(*meters)
    return threats(found, groups(found))[1]  # behind that of loopback


SHARED = {"shares_cores_with_broker": True, "cores": None}
DIVIDED = {"shares_cores_with_broker": False, "cores": {"broker/0": [0], "publishers/0": [1]}}
ELSEWHERE = {"shares_cores_with_broker": False, "cores": None}


@pytest.mark.parametrize(
    ("meters", "what", "why"),
    [
        ((), "One machine.", "operating system share the same 2 cores; under load"),
        ((SHARED,), "One machine.", "operating system share the same 2 cores; under load"),
        ((SHARED, DIVIDED), "One machine.", "share the same 2 cores in some runs; under load"),
        ((DIVIDED,), "Apart.", "had cores of their own; they share memory, caches and operating system."),
        ((ELSEWHERE,), "Apart.", "did not run on the same machine; they share the way between them"),
    ],
)
def test_broker_and_load_share_what_the_manifests_say(meters, what, why):
    found = first_threat(*meters)

    assert found[0] == what
    assert why in found[1]


def test_every_guard_but_those_without_a_figure_is_told_with_its_limit():
    told = guards_text(results(SHARED, guards=asdict(Guards())))

    assert "a CPU quota held a worker back for more than 5 % of a core" in told
    assert "a publishing worker of a closed loop lost more than 25 % of the time by waking late" in told
    assert "or when swap grew or sockets filled up" in told


CEILINGS = {
    "set_up": "64 B over TLS, MQTT 5.0",
    "qos0": {
        "published_recorded_per_s": 2_000_000.0,
        "received_per_s": 4_000_000.0,
        "cpu_us_per_message": {"published_recorded": 0.5, "received": 0.25},
        "schedule_error_ms": {"p99": 0.125},
        "receive_resolution_ms": {"p99": 2.0},
    },
}
WORKERS = {"workers": [{"node": node} for node in ("publishers/0", "publishers/1", "subscribers/0")]}


def calibrated(value, reason=None):
    found = results(WORKERS, calibration={"value": value, "reason": reason})
    run = {"run_id": f"{cell_id('a', 0)}/1", "published_per_s": 40_000.0, "delivered_per_s": 80_000.0}
    return replace(found, throughput=tuple(run | {"window": each} for each in ("send", "delivery")))


def shown(found):
    return [[entry.text for entry in row] for block in ceilings(found).blocks for row in block]


def test_the_runs_stand_beside_what_the_meter_itself_can_do():
    """Two workers that publish 40,000 messages a second have 20,000 each, a hundredth of two million."""
    found = calibrated(CEILINGS)

    assert shown(found) == [
        ["64 B over TLS, MQTT 5.0", "0", "2,000,000", "0.500", "4,000,000", "0.250", "0.125", "2.00", "1.00", "2.00"]
    ]
    assert ceilings_text(found) == (
        "Workers of these runs came to at most 1.00 % in publishing and 2.00 % in receiving of that, "
        "on the mean of a run."
    )


def with_second(found, **calibration):
    """A run of another set-up, at the same rate of publishing."""
    second = f"{cell_id('a', 0)}/2"
    return replace(
        found,
        runs=[*found.runs, found.runs[0] | {"run_id": second}],
        manifests=found.manifests | {second: {"meter": WORKERS, "calibration": calibration}},
        throughput=(*found.throughput, found.throughput[0] | {"run_id": second}),
    )


def test_runs_stand_beside_the_ceilings_of_their_own_setup():
    other = {"payload_bytes": 1024, "qos0": {"published_recorded_per_s": 400_000.0, "received_per_s": 4_000_000.0}}
    found = with_second(calibrated(CEILINGS), value=other, reason=None)

    rows = {row[0]: row for row in shown(found)}
    assert rows["1,024 B over TCP, MQTT 3.1.1"][2:] == (["400,000", "–", "4,000,000", "–", "–", "–", "5.00", "–"])
    assert rows["64 B over TLS, MQTT 5.0"][-2:] == ["1.00", "2.00"]
    assert "5.00 % in publishing and 2.00 % in receiving" in ceilings_text(found)


@pytest.mark.parametrize("facts", [{"mqtt5": {"topic_alias": True}}, {"template": "{seq}"}, {"subscribers": 10}])
def test_setups_with_the_same_words_stand_apart(facts):
    other = CEILINGS | facts | {"qos0": CEILINGS["qos0"] | {"published_recorded_per_s": 200_000.0}}
    found = with_second(calibrated(CEILINGS), value=other, reason=None)

    assert sorted(row[2] for row in shown(found)) == ["2,000,000", "200,000"]
    assert sorted(row[-2] for row in shown(found)) == ["1.00", "10.0"]


def test_a_ceiling_of_another_kind_is_none_and_the_report_says_why():
    """Of a run that publishes in another way; the other one's ceilings are not its own."""
    nothing = {"published_recorded_per_s": None, "schedule_error_ms": None}
    other = CEILINGS | {"qos0": CEILINGS["qos0"] | nothing | {"cpu_us_per_message": {"received": 0.25}}}
    without = {"publishing": "self loops are not calibrated"}
    found = with_second(calibrated(CEILINGS), value=other, reason=None, without=without)

    assert sorted(row[2:] for row in shown(found)) == [
        ["2,000,000", "0.500", "4,000,000", "0.250", "0.125", "2.00", "1.00", "2.00"],
        ["–", "–", "4,000,000", "0.250", "–", "2.00", "–", "–"],
    ]
    assert ceilings_text(found).endswith("There is no ceiling of publishing: self loops are not calibrated.")


def test_what_devices_can_answer_is_told():
    level = CEILINGS["qos0"] | {"answered_per_s": 500_000.0}

    assert ceilings_text(calibrated(CEILINGS | {"qos0": level})).endswith(
        "A worker of devices answers at most 500,000 messages a second (64 B over TLS, MQTT 5.0)."
    )


def test_all_facts_of_a_setup_tell_it_apart():
    assert set(FACTS) == {each.name for each in fields(SetUp)}


def test_a_calibration_that_is_missing_is_told_with_its_reason_and_another_qos_is_not():
    missing = calibrated(None, "never calibrated")
    assert ceilings_text(missing) == "How far the meter was from its own ceilings is not known: never calibrated."
    for found in (missing, calibrated({"payload_bytes": 64, "qos2": CEILINGS["qos0"]}), results()):
        assert shown(found) == []
    assert ceilings_text(results()) == ""
