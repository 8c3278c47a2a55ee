"""The account of wills: each of what can go wrong is counted once and by its name."""

from collections import Counter

from brokerlab.lab.wills import Account, Arrival, account, chosen, wills_section
from brokerlab.load.packets import Publish
from brokerlab.load.sessionlog import SessionLog
from brokerlab.load.spec import Client, Left
from brokerlab.load.wills import will_of
from brokerlab.study.values import Workload
from brokerlab.study.will_values import Wills

SECOND = 1_000_000_000
PUBLISHERS = tuple(Client(number, f"p{number}", f"t/{number}", will=f"brokerlab-will/{number}") for number in range(4))
LEFT = Left(closed=((0, 10 * SECOND), (1, 11 * SECOND)), disconnected=(2,))


def will(number, at_s, *, payload=None, qos=1, retain=False):
    client = PUBLISHERS[number]
    return Arrival(
        Publish(client.will, f"will of {client.name}".encode() if payload is None else payload, qos, 7, retain=retain),
        round(at_s * SECOND),
    )


def accounted(*arrivals, retained=(), wills=None, granted_qos=2):
    log = SessionLog("wills/0")
    found = account(
        arrivals, retained, LEFT, PUBLISHERS, Workload(will=wills or Wills()),
        granted_qos=granted_qos, log=log, ended_ns=99 * SECOND,
    )  # fmt: skip
    return found, Counter(log.batch().column("event").to_pylist())


def test_each_will_once_is_what_is_promised():
    found, events = accounted(will(1, 11.5), will(0, 10.25))

    assert found == Account(expected=2, arrived=2, latencies_ns=[SECOND // 2, SECOND // 4])
    assert events == {"will": 2}
    section = wills_section(found, LEFT, Wills(), granted_qos=2)
    assert section["latency_ms"] == {"p50": 250.0, "p99": 500.0, "max": 500.0}
    assert (section["expected"], section["arrived"], section["disconnected"]) == (2, 2, 1)


def test_missing_twice_after_disconnect_and_of_somebody_else():
    found, events = accounted(will(0, 10.5), will(0, 10.6), will(2, 12), will(3, 12))

    assert (found.arrived, found.missing, found.duplicated, found.unexpected, found.foreign) == (1, 1, 1, 1, 1)
    assert events == {"will": 1, "will failed: missing": 1, "will failed: duplicated": 1, "will failed: unexpected": 1}


def test_what_a_will_carries_is_held_against_what_was_asked_for():
    found, _ = accounted(will(0, 10.5, payload=b"other", qos=0), will(1, 11.5, retain=True))
    assert (found.arrived, found.wrong_payload, found.wrong_qos, found.wrong_retain) == (2, 1, 1, 1)

    granted_less, _ = accounted(will(0, 10.5, qos=0), will(1, 11.5, qos=0), granted_qos=0)
    assert granted_less.wrong_qos == 0


def test_a_delayed_will_counts_from_the_end_of_its_delay_and_is_early_before():
    found, events = accounted(will(0, 12), will(1, 11.9), wills=Wills(delay_s=1))

    assert (found.arrived, found.early, found.latencies_ns) == (2, 1, [SECOND])
    assert events == {"will": 1, "will failed: early": 1}


def test_what_a_late_subscriber_finds():
    kept = [Publish(PUBLISHERS[0].will, b"", 1, 1, retain=True)]
    came = (will(0, 10.5), will(1, 11.5))

    assert accounted(*came, retained=kept, wills=Wills(retain=True))[0].not_retained == 1
    assert accounted(*came, retained=kept)[0].retained == 1


def test_a_share_is_chosen_by_seed_and_is_never_nobody():
    many = tuple(Client(number, f"p{number}", "") for number in range(100))

    half = chosen(many, Wills(), seed=1)
    assert len(half) == 50
    assert half == chosen(many, Wills(), seed=1) != chosen(many, Wills(), seed=2)
    assert chosen(many, Wills(share_percent=100), seed=1) == tuple(range(100))
    assert len(chosen(many, Wills(share_percent=0.1), seed=1)) == 1


def test_a_client_without_a_topic_for_it_leaves_no_will():
    assert will_of(Client(0, "s0", "t"), Workload(will=Wills())) is None
    assert will_of(PUBLISHERS[0], Workload()) is None
    asked = will_of(PUBLISHERS[0], Workload(will=Wills(2, retain=True, delay_s=3)))
    assert asked is not None
    assert (asked.qos, asked.retain, asked.properties) == (2, True, ((0x18, 3),))
