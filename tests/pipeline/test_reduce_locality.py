"""Deliveries within one node of an ensemble and between two, without Spark; countable on paper (design section 10)."""

import pytest
from pipeline_runs import RunBuilder, arrival, publication
from test_reduce_ledger import partials_of

pytestmark = pytest.mark.pipeline


def two_nodes(study):
    """Publisher 0 is at node 0; subscriber 0 at node 0 as well, subscriber 1 at node 1."""
    clients = RunBuilder(subscribers={0: ("t/#", 0), 1: ("t/#", 0)}).sections()["clients"]
    clients["publishers"][0] |= {"node": 0}
    for number, entry in enumerate(clients["subscribers"]):
        entry |= {"node": number}
    sent = [publication(seq, 2000 + 100 * seq) for seq in range(4)]
    here = [arrival(message, 1) for message in sent]
    there = [arrival(message, 7, subscriber=1) for message in sent[:3]]
    return RunBuilder(more={"clients": clients}).write(
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
