"""Every fault that the scripted broker can make × every QoS: the tables say exactly what it did.

One publisher sends 50 messages, 5 ms apart, on t/0. Subscriber 0 asked for t/0, subscriber 1 for t/1,
where nobody publishes: message n of a script is seq n - 1, 50 deliveries are expected, all at subscriber 0.

Counts are those on paper. No time is: every one is held between two that the broker has noted (load/deeds.py), and the
tables against arithmetic on the raw rows, however busy the machine is.
"""

import math
from dataclasses import dataclass, field
from functools import cache

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from scripted_truth import CLOCK_NS, NOTHING_MS, QUANTILES, exact_ms, truth_of

from brokerlab.pipeline.tables import read_table
from brokerlab.study.plan import make_plan
from brokerlab.study.values import (
    Analysis,
    BrokerChoice,
    Deploy,
    Factor,
    Goals,
    Phases,
    Scenario,
    Schedule,
    Study,
    System,
    Topics,
    Workload,
)

pytestmark = pytest.mark.e2e

RATE_PER_S, MESSAGES = 200, 50
GAP_MS = 1000 / RATE_PER_S
LATE_S = 0.2
ANSWER_MS = 100
NOTHING = {
    "published": MESSAGES, "acknowledged": MESSAGES, "never_acknowledged": 0, "expected": MESSAGES,
    "delivered": MESSAGES, "lost": 0, "acknowledged_lost": 0, "duplicated": 0, "duplicated_flagged": 0,
    "reordered": 0, "unexpected": 0, "resized": 0, "verdict": "kept",
}  # fmt: skip
UNKNOWN_AT_QOS_0 = ("acknowledged", "never_acknowledged", "acknowledged_lost")
EACH = {0: {}, 1: {}, 2: {}}


@dataclass(frozen=True)
class Case:
    """A script, and by QoS in what the ledger differs from that of a broker without faults; None: there is no row."""

    name: str
    script: dict
    ledger: dict = field(default_factory=lambda: EACH)
    granted: dict = field(default_factory=lambda: {0: 0, 1: 1, 2: 2})
    collapsed: str = ""  # the reason, for a run that the broker did not carry to its end
    held_ms: dict = field(default_factory=dict)  # by number, how long the script keeps it from its subscriber
    retransmissions: dict = field(default_factory=dict)
    unknown: int = 0  # acknowledgements of nothing
    session: str = "clean"  # of the clients; only one that lasts comes back


def lost(count, *, verdicts=("kept", "broken", "broken")):
    """Messages that were acknowledged, where anything is, and not delivered: QoS 0 allows that."""
    counts = same(verdicts, delivered=MESSAGES - count, lost=count)
    return {qos: row | ({"acknowledged_lost": count} if qos else {}) for qos, row in counts.items()}


def same(verdicts=("kept", "kept", "kept"), **counts):
    return {qos: counts | {"verdict": verdict} for qos, verdict in enumerate(verdicts)}


def by_qos(ledger, *wanted):
    return {qos: ledger[qos] for qos in wanted}


UNSETTLED = {"acknowledged": MESSAGES - 1, "never_acknowledged": 1, "verdict": "unknown"}
ONE_LOST = {"delivered": MESSAGES - 1, "lost": 1}
TOO_OFTEN = ("broken", "kept", "broken")  # breaks at most once and exactly once
ENDED = "the broker ended 1 connections"

# By kind: what the run says of it, and at which QoS; tests/unit/load/test_broken.py has all kinds at each.
MALFORMED_TO_SUBSCRIBERS = {
    "qos": ("there is no QoS 3", 0, 1, 2),
    "length": ("the remaining length is longer than four bytes", 0),
    "topic": ("the packet ends 7 bytes too early", 1),
    "pubrel": ("the flags of the fixed header are 0b0000, not 0b0010", 2),
}
MALFORMED_TO_PUBLISHERS = {
    "qos": ("there is no QoS 3", 0),
    "puback": ("the flags of the fixed header are 0b0001, not 0b0000", 1),
    "type-15": ("there is no packet type 15", 2),
}


def malformed(kind, said, *qos):
    script = {"malformed": [30], "malformed_kind": kind}
    return Case(
        f"malformed_{kind}", script, by_qos(lost(21), *qos), collapsed=f"the broker sent a malformed packet: {said}"
    )


def malformed_answer(kind, said, *qos):
    script = {"malformed_answer": [50], "malformed_kind": kind}
    ledger = by_qos({0: {}, 1: UNSETTLED, 2: UNSETTLED}, *qos)
    return Case(f"malformed_answer_{kind}", script, ledger, collapsed=f"the broker sent a malformed packet: {said}")


CASES = [
    Case("honest", {}),
    Case("drop", {"drop": [7, 50]}, lost(2)),
    Case("ignore", {"ignore": [9]}, {0: ONE_LOST, 1: ONE_LOST | UNSETTLED, 2: ONE_LOST | UNSETTLED}),
    Case("unacknowledged", {"unacknowledged": [9]}, {1: UNSETTLED, 2: UNSETTLED}),
    Case(
        "reject",  # the last one, so that nothing is still to be sent when its publisher is thrown out
        {"reject": [50]},
        {0: ONE_LOST, 1: ONE_LOST | UNSETTLED, 2: ONE_LOST | UNSETTLED},
        collapsed=ENDED,
    ),
    Case("twice", {"duplicate": [11], "dup_flag": False}, same(TOO_OFTEN, duplicated=1)),
    Case(
        "twice_dup",
        {"duplicate": [11], "dup_flag": True},
        {
            0: {"duplicated": 1, "verdict": "broken"},  # there is no DUP at QoS 0
            1: {"duplicated": 1, "duplicated_flagged": 1},
            2: {"duplicated": 1, "duplicated_flagged": 1, "verdict": "broken"},
        },
    ),
    Case(
        "retransmit",  # the same packet identifier before PUBREL is one message at QoS 2
        {"retransmit": [15]},
        {1: {"duplicated": 1, "duplicated_flagged": 1}, 2: {}},
        retransmissions={2: 1},
    ),
    Case("truncate", {"truncate": {"30": 16, "50": 63, "40": 64}}, same(resized=2)),  # of 64 B; identity takes 16
    # 13 is overtaken; nothing is left that could overtake 50
    Case("delay", {"delay_ms": {"13": 150, "50": 150}}, same(reordered=1), held_ms={13: 150, 50: 150}),
    Case("swap", {"swap": [[20, 23]]}, same(reordered=3), held_ms={20: 15, 21: 10, 22: 5}),  # 23 21 22 20
    Case("hold", {"hold": {"20": 23}}, same(reordered=1), held_ms={20: 15}),  # 21 22 23 20
    Case(  # 10, 20 and 30 are overtaken, and 20 is not that late
        "late",
        {"delay_ms": {"10": 250, "20": 100, "30": 250, "50": 250}},
        same(reordered=3),
        held_ms={10: 250, 20: 100, 30: 250, 50: 250},
    ),
    Case("foreign", {"foreign": [25]}, same(TOO_OFTEN, unexpected=1)),
    Case("misroute", {"misroute": [25]}, same(TOO_OFTEN, unexpected=1)),  # subscriber 1 gets it too
    Case(
        "grant_0",  # acknowledged and lost, but no more than at most once was promised
        {"grant_qos": 0, "drop": [7]},
        lost(1, verdicts=("kept", "kept", "kept")),
        granted={0: 0, 1: 0, 2: 0},
    ),
    Case("grant_1", {"grant_qos": 1, "duplicate": [7], "dup_flag": False}, {2: {"duplicated": 1}}, granted={2: 1}),
    Case(
        "refuse_sub",  # a subscription that was refused promises nothing, so nothing is lost
        {"refuse_subscription": [1, 2]},
        same(("unknown",) * 3, expected=0, delivered=0),
        granted={0: 128, 1: 128, 2: 128},
        collapsed="the broker refused the subscriptions of 2 subscribers",
    ),
    Case(
        "refuse_con",  # before anything is published: there is nothing to account for
        {"refuse_connection": {"2": 3}},
        dict.fromkeys(range(3)),
        collapsed="the broker refused the connection: server unavailable",
    ),
    Case("cut", {"cut": {"30": 10}}, lost(21), collapsed=ENDED),  # in the identity
    Case("cut_first", {"cut": {"30": 0}}, by_qos(lost(21), 0, 2), collapsed=ENDED),
    Case("cut_last", {"cut": {"30": 72}}, by_qos(lost(21), 1), collapsed=ENDED),  # of 73 bytes
    Case(
        "part",  # what was not acknowledged comes again, as it should: at QoS 2 it is one message to the application
        {"part": [20]},
        {0: {}, 1: {"duplicated": 1, "duplicated_flagged": 1}, 2: {}},
        collapsed=ENDED,
        retransmissions={2: 1},
        session="persistent",
    ),
    Case(
        "again",
        {"again": [20], "dup_flag": False},
        same(TOO_OFTEN, duplicated=1),
        collapsed=ENDED,
        session="persistent",
    ),
    Case(
        "again_dup",
        {"again": [20], "dup_flag": True},
        {
            0: {"duplicated": 1, "verdict": "broken"},
            1: {"duplicated": 1, "duplicated_flagged": 1},
            2: {"duplicated": 1, "duplicated_flagged": 1, "verdict": "broken"},
        },
        collapsed=ENDED,
        session="persistent",
    ),
    Case("cut_answer", {"cut_answer": {"50": 2}}, {1: UNSETTLED, 2: UNSETTLED}, collapsed=ENDED),
    *[malformed(kind, *each) for kind, each in MALFORMED_TO_SUBSCRIBERS.items()],
    *[malformed_answer(kind, *each) for kind, each in MALFORMED_TO_PUBLISHERS.items()],
    Case("unknown_answer", {"malformed_answer": [20], "malformed_kind": "unknown"}, {1: {}, 2: {}}, unknown=1),
    Case(
        "malformed_grant",
        {"malformed_grant": [1]},
        {1: None},
        collapsed="no answer to SUBSCRIBE: the broker sent a malformed packet: the flags of the fixed header are",
    ),
    Case(  # n was due 5 ms after n - 1, and all of them waited
        "stall", {"stall_ms": {"20": 150}}, held_ms={n: 150 - GAP_MS * (n - 20) for n in range(21, 51)}
    ),
    Case("slow", dict.fromkeys(("answer_ms", "pubcomp_ms", "suback_ms", "connack_ms"), ANSWER_MS)),
]
BY_NAME = {case.name: case for case in CASES}
RUNS = [(case.name, qos) for case in CASES for qos in case.ledger]
MEASURED = [(name, qos) for name, qos in RUNS if BY_NAME[name].ledger[qos] is not None]


def study():
    brokers = tuple(BrokerChoice(case.name, "scripted", options=case.script) for case in CASES)
    workload = Workload(
        publishers=1,
        subscribers=2,
        topics=Topics(publish="t/{publisher}", subscribe="t/{subscriber}"),
        schedule=Schedule(rate_per_s=RATE_PER_S),
    )
    return Study(
        name="faults",
        goals=Goals("Does the meter tell the truth about every fault?"),
        system=System(brokers),
        metrics=("latency", "delivery"),
        scenario=Scenario(
            workload,
            (Factor("broker", tuple(BY_NAME)), Factor("qos", (0, 1, 2)), Factor("session", ("clean", "persistent"))),
        ),
        analysis=Analysis(late_s=LATE_S),
        deploy=Deploy(repetitions=1, phases=Phases(warmup_s=0, measure_s=MESSAGES / RATE_PER_S, drain_s=0.8)),
    )


def planned():
    own, wanted = study(), {cell_id(*run) for run in RUNS}
    return [(own, run) for run in make_plan(own, missing={}).runs if run.cell.id in wanted]


@pytest.fixture(scope="module")
def results(analysed):
    return analysed


@pytest.fixture(scope="module")
def truth_about(results):
    return cache(lambda name, qos: truth_of(results.run(f"{cell_id(name, qos)}/1")))


@pytest.fixture(scope="module")
def delivery(results):
    return read_table(results, "delivery").to_pylist()


@pytest.fixture(scope="module")
def latency(results):
    return read_table(results, "latency").to_pylist()


def cell_id(name, qos):
    return f"broker-{name}.qos-{qos}.session-{BY_NAME[name].session}"


@pytest.mark.parametrize(("name", "qos"), RUNS)
def test_the_ledger_states_what_the_script_did(delivery, name, qos):
    case = BY_NAME[name]
    found = [row for row in delivery if row["cell"] == cell_id(name, qos)]
    if case.ledger[qos] is None:
        assert found == []
        return
    expected = NOTHING | case.ledger[qos]
    if qos == 0:
        expected |= dict.fromkeys(UNKNOWN_AT_QOS_0)

    assert [{key: row[key] for key in ("qos_granted", *expected)} for row in found] == [
        {"qos_granted": case.granted[qos], **expected}
    ]


@pytest.mark.parametrize(("name", "qos"), RUNS)
def test_the_run_is_collapsed_where_the_broker_did_not_carry_it_to_its_end(results, name, qos):
    """A busy machine may make a run invalid; only the broker can make it collapse."""
    verdict = manifest_of(results, name, qos)["verdict"]
    expected = BY_NAME[name].collapsed

    assert (verdict["value"] == "collapsed") == bool(expected)
    assert expected in (verdict["reasons"] or [""])[0]


@pytest.mark.parametrize(("name", "qos"), MEASURED)
def test_every_time_lies_where_the_broker_says(truth_about, name, qos):
    """What was sent, received and acknowledged is never before its cause, and not after what followed from it."""
    truth = truth_about(name, qos)
    came, answered = truth.times("came", "p0"), truth.times("answered", "p0")
    sent, heard, taken = (truth.times(each, "s0") for each in ("sent", "heard", "taken"))
    first_ns = truth.publications[1]["intended_ns"]

    assert len(truth.publications) == MESSAGES
    for n, row in truth.publications.items():
        assert row["intended_ns"] == first_ns + (n - 1) * 1_000_000_000 // RATE_PER_S
        assert row["intended_ns"] <= row["sent_ns"] <= came[n]
        assert row["acked_ns"] is None or row["acked_ns"] >= answered[n]
    for n, row in truth.arrivals.items():
        assert sent[n] - CLOCK_NS <= row["received_ns"] <= heard.get(n, math.inf)
    # The kernel stamps what is not read yet anew with the end of a connection behind it.
    if not BY_NAME[name].collapsed:
        assert truth.arrivals.keys() <= heard.keys() | taken.keys()
        oldest = {n: row["received_ns"] - row["resolution_ns"] for n, row in truth.arrivals.items()}
        assert [n for n, at_ns in taken.items() if oldest[n] > at_ns + CLOCK_NS] == []


@pytest.mark.parametrize(("name", "qos"), MEASURED)
@pytest.mark.parametrize("kind", ["intended", "sent"])
def test_the_latency_table_is_that_of_the_first_arrivals(truth_about, latency, delivery, name, qos, kind):
    (row,) = (each for each in latency if (each["cell"], each["kind"]) == (cell_id(name, qos), kind))
    (ledger,) = (each for each in delivery if each["cell"] == cell_id(name, qos))
    latencies_ns = truth_about(name, qos).latencies_ns(kind)

    assert row["n"] == len(latencies_ns) == ledger["delivered"]
    assert (row["zero_count"], row["negative_count"]) == (0, 0)
    if not latencies_ns:
        assert {row[column] for column in NOTHING_MS} == {None}
        return
    exact = exact_ms(latencies_ns.values())
    for column, value in exact.items():
        assert row[column] == pytest.approx(value, rel=0.01 if column in QUANTILES else 1e-6), column
    assert (row["min_ms"], row["max_ms"]) == (exact["min_ms"], exact["max_ms"])


@pytest.mark.parametrize(("name", "qos"), [run for run in RUNS if BY_NAME[run[0]].held_ms])
def test_what_the_script_holds_back_has_that_latency(truth_about, name, qos):
    latencies_ns = truth_about(name, qos).latencies_ns("intended")

    assert [n for n, ms in BY_NAME[name].held_ms.items() if latencies_ns[n] < ms * 1e6 - CLOCK_NS] == []


@pytest.mark.parametrize(("name", "qos"), MEASURED)
def test_late_is_what_came_later_than_the_study_says(truth_about, delivery, name, qos):
    """On a machine with time to spare that is what the script delayed so long; always it is all of that."""
    (ledger,) = (each for each in delivery if each["cell"] == cell_id(name, qos))
    late = truth_about(name, qos).late(LATE_S)

    assert ledger["late"] == len(late)
    assert {n for n, ms in BY_NAME[name].held_ms.items() if ms > LATE_S * 1e3} <= late


@pytest.mark.parametrize(("name", "qos"), MEASURED)
def test_a_retransmission_is_counted_by_the_meter_alone(results, name, qos):
    assert manifest_of(results, name, qos)["meter"]["retransmissions"] == BY_NAME[name].retransmissions.get(qos, 0)


@pytest.mark.parametrize(("name", "qos"), MEASURED)
def test_an_acknowledgement_of_nothing_is_counted_by_the_meter_alone(results, name, qos):
    workers = manifest_of(results, name, qos)["meter"]["workers"]

    assert sum((each["acknowledgements"] or {}).get("unknown", 0) for each in workers) == BY_NAME[name].unknown


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_slow_answers_are_in_what_was_answered_and_in_no_latency(results, truth_about, qos):
    """Each message left before its answer did; the broker has noted when that was, and all latencies are held above."""
    run = results.run(f"{cell_id('slow', qos)}/1")
    (file,) = run.files("publications")
    rows, sessions, truth = pq.read_table(file), pq.read_table(run.files("sessions")), truth_about("slow", qos)

    for event in ("connack", "suback"):
        took_ns = pc.filter(sessions["latency_ns"], pc.equal(sessions["event"], event))
        assert pc.min(took_ns).as_py() >= ANSWER_MS * 1e6
    if qos:
        assert pc.min(pc.subtract(rows["acked_ns"], rows["sent_ns"])).as_py() >= qos * ANSWER_MS * 1e6
        answered = truth.times("answered")
        assert [n for n, row in truth.arrivals.items() if row["received_ns"] > answered[n]] == []


@pytest.mark.parametrize(("name", "qos"), RUNS)
def test_the_broker_itself_never_fails(results, name, qos):
    log = results.run(f"{cell_id(name, qos)}/1").broker / "0.log"

    assert "Traceback" not in log.read_text(encoding="utf-8")


def manifest_of(results, name, qos):
    return results.run(f"{cell_id(name, qos)}/1").manifest()
