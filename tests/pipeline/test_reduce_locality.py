"""Deliveries within one node of an ensemble and between two, without Spark; countable on paper (design section 10)."""

import pytest
from pipeline_runs import MS, RunBuilder, arrival, publication
from test_reduce_ledger import partials_of

pytestmark = pytest.mark.pipeline


KILL = {"fault": 1, "kind": "kill", "node": 0, "target": "node 0", "at_ns": 2250 * MS, "end_ns": None}


def clients_at_two_nodes():
    clients = RunBuilder(subscribers={0: ("t/#", 0), 1: ("t/#", 0)}).sections()["clients"]
    clients["publishers"][0] |= {"node": 0}
    for number, entry in enumerate(clients["subscribers"]):
        entry |= {"node": number}
    return clients


def two_nodes(study, *, doubled=(), **more):
    """Publisher 0 is at node 0; subscriber 0 at node 0 as well, subscriber 1 at node 1."""
    clients = clients_at_two_nodes()
    sent = [publication(seq, 2000 + 100 * seq) for seq in range(4)]
    here = [arrival(message, 1) for message in sent]
    there = [arrival(message, 7, subscriber=1) for message in sent[:3]]
    there += [arrival(sent[seq], 450, subscriber=1) for seq in doubled]
    return RunBuilder(more={"clients": clients, **more}).write(
        study, publications={"p": sent}, deliveries={"subscribers-0": here, "subscribers-1": there}
    )


def test_latency_of_local_and_crossing_messages_stands_apart(study):
    moments = partials_of(two_nodes(study))["moments"]

    found = {}
    for row in moments:
        if row["kind"] == "intended":
            found.setdefault(row["group"], []).append((row["n"], row["max_ns"] // 1_000_000))
    assert found == {"all": [(4, 1), (3, 7)], "local": [(4, 1)], "crossing": [(3, 7)]}


def test_pairs_between_nodes_are_counted(study):
    partials = partials_of(two_nodes(study))

    assert [(row["pairs"], row["crossing_pairs"]) for row in partials["expected"]] == [(8, 4)]
    assert [(row["subscriber"], row["delivered"], row["is_crossing"]) for row in partials["flow"]] == [
        (0, 4, False),
        (1, 3, True),
    ]


def test_what_a_fault_lost_doubled_and_reordered_is_split_by_way(study):
    """A fault at 2.25 s: 2 and 3 are its. Of node 1, 3 never comes, and 1 comes again and 2 once more behind it."""
    partials = partials_of(two_nodes(study, doubled=(1, 2), faults=[KILL]))

    arrived = [row for row in partials["fault_arrived"] if row["fault"] == 1]
    ways = ("delivered", "crossing_delivered", "duplicated_local", "duplicated_crossing")
    assert [tuple(row[name] for name in ways) for row in arrived] == [(2, 0, 0, 0), (0, 1, 0, 2)]
    (expected,) = (row for row in partials["fault_expected"] if row["fault"] == 1)
    assert (expected["expected"], expected["crossing_expected"]) == (2, 2)


def test_what_overtook_on_the_way_between_nodes_is_told_from_what_did_at_one(study):
    """Subscriber 1 gets 3 before 2, and subscriber 0 everything in order."""
    sent = [publication(seq, 2000 + 100 * seq) for seq in range(4)]
    there = [arrival(sent[seq], late, subscriber=1) for seq, late in ((0, 1), (1, 1), (3, 1), (2, 202))]
    run = RunBuilder(more={"clients": clients_at_two_nodes(), "faults": [KILL]}).write(
        study,
        publications={"p": sent},
        deliveries={"subscribers-0": [arrival(message, 1) for message in sent], "subscribers-1": there},
    )

    rows = [row for row in partials_of(run)["fault_arrived"] if row["fault"] == 1]
    assert [(row["reordered_local"], row["reordered_crossing"]) for row in rows] == [(0, 0), (0, 1)]
