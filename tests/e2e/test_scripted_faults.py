"""Every fault that the scripted broker can make × every QoS: the tables say exactly what it did.

One publisher sends 50 messages, 5 ms apart, on t/0. Subscriber 0 asked for t/0, subscriber 1 for t/1,
where nobody publishes: message n of a script is seq n - 1, 50 deliveries are expected, all at subscriber 0.
"""

from dataclasses import dataclass, field

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from brokerlab.pipeline.tables import read_table
from brokerlab.study.plan import make_plan
from brokerlab.study.values import (
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
NOTHING = {
    "published": MESSAGES, "acknowledged": MESSAGES, "never_acknowledged": 0, "expected": MESSAGES,
    "delivered": MESSAGES, "lost": 0, "acknowledged_lost": 0, "duplicated": 0, "duplicated_flagged": 0,
    "reordered": 0, "unexpected": 0, "verdict": "kept",
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
    longest_ms: float = 0.0  # a lower bound of the longest latency that the script guarantees
    retransmissions: dict = field(default_factory=dict)
    session: str = "clean"  # of the clients; only one that lasts comes back


def lost(count, *, verdicts=("kept", "broken", "broken")):
    """Messages that were acknowledged, where anything is, and not delivered: QoS 0 allows that."""
    counts = same(verdicts, delivered=MESSAGES - count, lost=count)
    return {qos: row | ({"acknowledged_lost": count} if qos else {}) for qos, row in counts.items()}


def same(verdicts=("kept", "kept", "kept"), **counts):
    return {qos: counts | {"verdict": verdict} for qos, verdict in enumerate(verdicts)}


UNSETTLED = {"acknowledged": MESSAGES - 1, "never_acknowledged": 1, "verdict": "unknown"}
ONE_LOST = {"delivered": MESSAGES - 1, "lost": 1}
TOO_OFTEN = ("broken", "kept", "broken")  # breaks at most once and exactly once
ENDED = "the broker ended 1 connections"

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
    # 13 is overtaken; nothing is left that could overtake 50
    Case("delay", {"delay_ms": {"13": 150, "50": 150}}, same(reordered=1), longest_ms=150),
    Case("swap", {"swap": [[20, 23]]}, same(reordered=3), longest_ms=3 * GAP_MS),  # 23 21 22 20
    Case("hold", {"hold": {"20": 23}}, same(reordered=1), longest_ms=3 * GAP_MS),  # 21 22 23 20
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
        {1: None},
        collapsed="the broker refused the connection: server unavailable",
    ),
    Case("cut", {"cut": {"30": 10}}, lost(21), collapsed=ENDED),
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
    Case("malformed", {"malformed": [30]}, lost(21), collapsed="the broker sent a malformed packet"),
    Case("stall", {"stall_ms": {"20": 150}}, longest_ms=150 - GAP_MS),  # 21 was due 5 ms after 20, and waited
    Case("slow", {"answer_ms": 30}, {1: {}, 2: {}}),
]
BY_NAME = {case.name: case for case in CASES}
RUNS = [(case.name, qos) for case in CASES for qos in case.ledger]


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
        deploy=Deploy(repetitions=1, phases=Phases(warmup_s=0, measure_s=MESSAGES / RATE_PER_S, drain_s=0.8)),
    )


def planned():
    own, wanted = study(), {cell_id(*run) for run in RUNS}
    return [(own, run) for run in make_plan(own, missing={}).runs if run.cell.id in wanted]


@pytest.fixture(scope="module")
def results(analysed):
    return analysed


@pytest.fixture(scope="module")
def delivery(results):
    return read_table(results, "delivery").to_pylist()


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


@pytest.mark.parametrize(("name", "qos"), [run for run in RUNS if not BY_NAME[run[0]].collapsed])
def test_latency_holds_every_first_delivery_and_the_time_that_the_script_took(results, delivery, name, qos):
    (latency,) = (
        row for row in read_table(results, "latency").to_pylist()
        if row["cell"] == cell_id(name, qos) and row["kind"] == "intended"
    )  # fmt: skip
    (ledger,) = (row for row in delivery if row["cell"] == cell_id(name, qos))

    assert latency["n"] == ledger["delivered"]
    assert latency["max_ms"] >= BY_NAME[name].longest_ms
    assert latency["negative_count"] == 0


@pytest.mark.parametrize(("name", "qos"), [run for run in RUNS if run[0] != "refuse_con"])
def test_a_retransmission_is_counted_by_the_meter_alone(results, name, qos):
    assert manifest_of(results, name, qos)["meter"]["retransmissions"] == BY_NAME[name].retransmissions.get(qos, 0)


@pytest.mark.parametrize("qos", [1, 2])
def test_slow_answers_are_in_the_publications_and_in_no_latency(results, qos):
    (file,) = results.run(f"{cell_id('slow', qos)}/1").files("publications")
    rows = pq.read_table(file)

    assert pc.min(pc.subtract(rows["acked_ns"], rows["sent_ns"])).as_py() >= 30_000_000


def manifest_of(results, name, qos):
    return results.run(f"{cell_id(name, qos)}/1").manifest()
