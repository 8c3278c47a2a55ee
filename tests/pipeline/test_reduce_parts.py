"""Devices and the probe beside the load, from their own raw files; countable on paper (S-12, C-03)."""

import pytest
from pipeline_runs import DEFAULTS, MS, RunBuilder, arrival, publication
from test_reduce_ledger import partials_of

pytestmark = pytest.mark.pipeline


@pytest.fixture(autouse=True)
def rows_of_parts(monkeypatch):
    """Their rows have the same columns as those of the load."""
    for part in ("device", "probe"):
        for kind in ("publications", "deliveries"):
            monkeypatch.setitem(DEFAULTS, f"{part}_{kind}", DEFAULTS[kind])


def built(study, *, clients, raw, form="full", qos=0):
    """A run with these clients beside the usual ones, whose messages were told apart by `form`."""
    every = RunBuilder(qos=qos).sections()["clients"] | clients
    run = RunBuilder(qos=qos, more={"clients": every, "identity": {"form": form, "window": None}})
    return partials_of(run.write(study, **raw))


def of_kind(partials, kind):
    return [(row["n"], row["min_ns"], row["max_ns"]) for row in partials["moments"] if row["kind"] == kind]


@pytest.mark.parametrize(
    ("came", "notes"),
    [
        ((0, 1, 2), []),
        ((0, 2), ["1 of 3 probes did not come: its latencies are those of the others"]),
        ((), ["3 of 3 probes did not come: its latencies are those of the others"]),
    ],
)
def test_probes_that_did_not_come_are_told_with_those_that_did(study, came, notes):
    sent = [publication(seq, 2000 + 100 * seq, publisher=9) for seq in range(3)]
    sent.append(publication(3, 5000, publisher=9))  # after the measure phase, and lost: no matter
    partials = built(
        study,
        clients={"probe": {"publisher": 9, "topic": "probe", "granted_qos": 0}},
        raw={
            "probe_publications": {"probe": sent},
            "probe_deliveries": {"probe": [arrival(sent[seq], 2) for seq in came]},
        },
    )

    assert [row["reason"] for row in partials["note"]] == notes
    assert of_kind(partials, "intended") == ([(len(came), 2_000_000, 2_000_000)] if came else [])


@pytest.mark.parametrize(("late_ms", "is_told"), [(4.9, False), (5.1, True)])
def test_probes_that_left_late_are_told_for_what_they_waited_is_in_one_of_the_two_latencies(study, late_ms, is_told):
    due = [publication(seq, 2000 + 100 * seq, publisher=9) for seq in range(3)]
    sent = [*due[:2], due[2] | {"sent_ns": due[2]["intended_ns"] + round(late_ms * 1e6)}]
    partials = built(
        study,
        clients={"probe": {"publisher": 9, "topic": "probe", "granted_qos": 0}},
        raw={"probe_publications": {"probe": sent}, "probe_deliveries": {"probe": [arrival(each, 6) for each in sent]}},
    )

    notes = [f"probes left up to {late_ms} ms (p99) after they were due, more than 5 ms"] if is_told else []
    assert [row["reason"].partition(":")[0] for row in partials["note"]] == notes
    assert of_kind(partials, "intended") == [(3, 6_000_000, 6_000_000)]
    assert of_kind(partials, "sent") == [(3, round((6 - late_ms) * 1e6), 5_900_000)]


def test_a_probe_is_not_known_less_than_it_took(study):
    sent = [publication(seq, 2000 + 100 * seq, publisher=9) for seq in range(2)]
    partials = built(
        study,
        clients={"probe": {"publisher": 9, "topic": "probe", "granted_qos": 0}},
        raw={
            "probe_publications": {"probe": sent},
            "probe_deliveries": {"probe": [arrival(each, 2, resolution_ns=5 * MS) for each in sent]},
        },
    )

    assert resolutions(partials) == {"intended": (4 * MS, 2 * MS), "sent": (3_800_000, 1_900_000)}


def test_a_device_had_a_message_no_earlier_than_it_was_due_and_may_have_kept_it_so_much_longer(study):
    """3 ms on the way there, known to 5 and to 1 ms: 3 and 1 ms; kept for 0.1 ms, and as much longer."""
    sent = [publication(seq, 2000 + 100 * seq) for seq in range(2)]
    answers = [publication(seq, 2003 + 100 * seq) for seq in range(2)]
    heard = [arrival(each, 3, resolution_ns=ms * MS) for each, ms in zip(sent, (5, 1), strict=True)]
    partials = built(
        study,
        clients={"devices": [{"device": 0, "filter": "t/0", "topic": "r/0", "granted_qos": 0}]},
        raw={
            "publications": {"p": sent},
            "device_deliveries": {"d": heard},
            "device_publications": {"d": answers},
        },
    )

    assert of_kind(partials, "device") == [(2, 100_000, 100_000)]
    assert resolutions(partials) == {"there": (4 * MS, 3 * MS), "device": (4 * MS, 3 * MS)}


def resolutions(partials):
    return {row["kind"]: (row["resolution_sum_ns"], row["resolution_max_ns"]) for row in partials["moments"]}


@pytest.mark.parametrize(("written_off", "is_told"), [(0, False), (150, True)])
def test_a_window_that_waited_for_lost_messages_is_told(study, written_off, is_told):
    sections = RunBuilder().sections()
    run = RunBuilder(more={"meter": sections["meter"] | {"written_off": written_off}})
    partials = partials_of(run.write(study, publications={"p": [publication(0, 2000)]}))

    assert [("150 messages" in row["reason"]) for row in partials.get("note", [])] == [True] * is_told


def heard_by_device(sent, came):
    """(of which publication, taken for which) of each arrival."""
    return [arrival(sent[of], 3) | {"seq": seq, "intended_ns": None} for of, seq in came]


@pytest.mark.parametrize(
    ("came", "there"),
    [
        ([(0, 0), (1, 1), (2, 2)], [(3, 3_000_000, 3_000_000)]),
        ([(0, 0), (2, 1)], []),
        ([(0, 0), (1, 1), (1, 2), (2, 3)], []),
    ],
    ids=["all", "one lost", "one twice"],
)
def test_by_order_the_way_to_a_device_is_known_where_every_message_came_once(study, came, there):
    sent = [publication(seq, 2000 + 100 * seq) for seq in range(3)]
    partials = built(
        study,
        form="order",
        clients={"devices": [{"device": 0, "filter": "t/0", "topic": "r/0", "granted_qos": 0}]},
        raw={"publications": {"p": sent}, "device_deliveries": {"d": heard_by_device(sent, came)}},
    )

    assert of_kind(partials, "there") == there


@pytest.mark.parametrize(("qos", "granted", "missed"), [(2, 2, 1), (2, 1, 1), (1, 0, 0), (1, 128, 0), (0, 2, 0)])
def test_a_device_misses_what_was_acknowledged_and_promised_by_its_own_subscription(study, qos, granted, missed):
    """Of four messages the second was lost acknowledged, the third before that."""
    sent = [publication(seq, 2000 + 100 * seq, acked=qos > 0 and seq != 2) for seq in range(4)]
    partials = built(
        study,
        qos=qos,
        clients={"devices": [{"device": 0, "filter": "t/0", "topic": "r/0", "granted_qos": granted}]},
        raw={"publications": {"p": sent}, "device_deliveries": {"d": [arrival(sent[seq], 1) for seq in (0, 3)]}},
    )

    assert [(row["heard"], row["missed"]) for row in partials["echo"]] == [(2, missed)]
