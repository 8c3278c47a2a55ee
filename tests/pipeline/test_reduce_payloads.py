"""Classes of payloads and identities that are not in the payload, without Spark; countable on paper."""

import pytest
from pipeline_runs import RunBuilder, arrival, publication
from test_reduce_ledger import ledger, partials_of

pytestmark = pytest.mark.pipeline

ORDER = {"identity": {"form": "order", "window": None}}
EQUALS = {"identity": {"form": "content", "window": 1}}  # records of which neighbours are equal
SHORT = {"identity": {"form": "short", "window": 4}}  # no real one is that small


def four_messages():
    return [publication(seq, 2000 + 100 * seq) for seq in range(4)]


def without_number(of, after_ms, seq):
    return arrival(of, after_ms) | {"seq": seq, "intended_ns": None}


def latencies(run):
    return {(row["kind"], row["group"]): row["n"] for row in partials_of(run)["moments"]}


def test_an_arrival_without_its_time_takes_it_from_the_publication(study):
    sent = four_messages()
    arrivals = [without_number(message, 1, message["seq"]) for message in sent]
    run = RunBuilder().write(study, publications={"p": sent}, deliveries={"s": arrivals})

    assert ledger(run, "arrivals", "delivered") == {"arrivals": 4, "delivered": 4}
    (moments,) = [row for row in partials_of(run)["moments"] if row["kind"] == "intended"]
    assert (moments["n"], moments["min_ns"], moments["max_ns"]) == (4, 1_000_000, 1_000_000)


def test_an_arrival_before_its_publication_was_due_is_another_s(study):
    sent = four_messages()
    run = RunBuilder().write(study, publications={"p": sent}, deliveries={"s": [without_number(sent[0], 1, 3)]})

    assert ledger(run, "arrivals") == {"arrivals": 0}
    assert [row["arrivals"] for row in partials_of(run)["unexpected"]] == [1]


def test_by_order_a_flow_with_losses_is_counted_and_has_no_latency(study):
    sent = four_messages()
    arrivals = [without_number(sent[place], 1, seq) for seq, place in enumerate([0, 2, 3])]
    run = RunBuilder(more=ORDER).write(study, publications={"p": sent}, deliveries={"s": arrivals})

    assert ledger(run, "arrivals", "delivered") == {"arrivals": 3, "delivered": 3}
    assert latencies(run) == {}
    ticks = [row for row in partials_of(run)["tick"] if row["kind"] == "latency"]
    assert sum(row["n"] for row in ticks) == 3
    assert [row["buckets"] for row in ticks] == [[]] * len(ticks)


def test_by_order_a_whole_flow_has_its_latency(study):
    sent = four_messages()
    arrivals = [without_number(message, 1, message["seq"]) for message in sent]
    run = RunBuilder(more=ORDER).write(study, publications={"p": sent}, deliveries={"s": arrivals})

    assert latencies(run) == {("intended", "all"): 4, ("sent", "all"): 4, ("earliest", "all"): 4}


def test_by_order_what_is_too_much_is_unexpected(study):
    sent = four_messages()
    arrivals = [without_number(sent[3], 1, seq) for seq in range(6)]
    run = RunBuilder(more=ORDER).write(study, publications={"p": sent}, deliveries={"s": arrivals})

    assert ledger(run, "delivered") == {"delivered": 4}
    assert [row["arrivals"] for row in partials_of(run)["unexpected"]] == [2]
    assert latencies(run) == {}


def counts_and_latencies(study, form, sent, arrivals):
    """Of rows as a subscriber writes them: delivered, unexpected, flows in doubt, and messages with a latency."""
    run = RunBuilder(more=form).write(study, publications={"p": sent}, deliveries={"s": arrivals})
    partials = partials_of(run)
    return (
        sum(flow["delivered"] for flow in partials["flow"]),
        sum(row["arrivals"] for row in partials["unexpected"]),
        sum(flow["in_doubt"] for flow in partials["flow"]),
        sum(row["n"] for row in partials["moments"] if row["kind"] == "intended"),
    )


@pytest.mark.parametrize("form", [ORDER, EQUALS], ids=["order", "equals"])
def test_where_messages_are_alike_one_that_came_twice_costs_no_other(study, form):
    """Each arrival after the second one is taken for the message after it, which is not even due."""
    sent = four_messages()
    came = [without_number(sent[place], 1, seq) for seq, place in enumerate([0, 1, 1, 2, 3])]

    assert counts_and_latencies(study, form, sent, came) == (4, 1, 1, 0)


def test_equal_records_out_of_turn_are_all_there(study):
    """Numbers 0 and 3 changed places: 3 came first, so that 1 and 2 were taken for what comes last a second time."""
    sent = four_messages()
    came = [without_number(sent[place], 500, seq) for place, seq in enumerate([3, 3, 3, 0])]

    assert counts_and_latencies(study, EQUALS, sent, came) == (4, 0, 1, 0)


@pytest.mark.parametrize(
    ("came", "told"),
    [
        pytest.param([(0, 0), (1, 1), (3, 3), (4, 4), (5, 5), (6, 6), (7, 7)], (7, 0, 0, 7), id="one of eight lost"),
        pytest.param([(7, 3)], (1, 0, 1, 0), id="behind seven lost the eighth may be the fourth"),
    ],
)
def test_a_short_number_is_the_right_one_while_no_other_with_its_bytes_was_sent(study, came, told):
    sent = [publication(seq, 2000 + 100 * seq) for seq in range(8)]

    assert counts_and_latencies(study, SHORT, sent, [without_number(sent[of], 1, seq) for of, seq in came]) == told


def test_a_flow_in_doubt_keeps_its_intervals(study):
    sent = four_messages()
    came = [without_number(sent[place], 1, seq) for seq, place in enumerate([0, 2, 3])]
    run = RunBuilder(more=ORDER).write(study, publications={"p": sent}, deliveries={"s": came})
    (rhythm,) = partials_of(run)["rhythm"]

    assert (rhythm["n"], rhythm["interarrival_mean_ns"]) == (3, 150_000_000)
    assert (rhythm["jitter_ns"], rhythm["monotone_growth"], rhythm["blocks"]) == (None, None, None)


def test_each_class_of_payloads_is_a_group_of_latency(study):
    sizes = [64, 1024, 64, 64]
    sent = [publication(seq, 2000 + 100 * seq, payload_bytes=size) for seq, size in enumerate(sizes)]
    arrivals = [arrival(message, 1 + (message["payload_bytes"] > 64)) for message in sent]
    builder = RunBuilder()
    workload = builder.sections()["workload"] | {"payload": {"mix": [[64, 75.0], [1024, 25.0]]}}
    run = RunBuilder(more={"workload": workload}).write(study, publications={"p": sent}, deliveries={"s": arrivals})

    found = {row["group"]: (row["n"], row["max_ns"]) for row in partials_of(run)["moments"] if row["kind"] == "sent"}

    assert found == {
        "all": (4, 1_900_000), "payload 64 B": (3, 900_000), "payload 1024 B": (1, 1_900_000),
    }  # fmt: skip


def test_a_resolution_that_one_arrival_does_not_tell_is_not_known_of_all(study):
    sent = four_messages()
    arrivals = [arrival(message, 3, resolution_ns=None if message["seq"] == 2 else 1_000_000) for message in sent]
    run = RunBuilder().write(study, publications={"p": sent}, deliveries={"s": arrivals})
    partials = partials_of(run)

    assert latencies(run) == {("intended", "all"): 4, ("sent", "all"): 4}
    assert {(row["resolution_sum_ns"], row["resolution_max_ns"]) for row in partials["moments"]} == {(None, None)}
    assert [row["resolution_mean_ns"] for row in partials["rhythm"]] == [None]


def test_nothing_may_have_come_before_it_was_due(study):
    """3 ms under way and known to 1 ms: 2 at the earliest; known to 5 ms, as between two machines: 0."""
    sent = four_messages()
    arrivals = [arrival(message, 3, resolution_ns=(5 if message["seq"] else 1) * 1_000_000) for message in sent]
    run = RunBuilder().write(study, publications={"p": sent}, deliveries={"s": arrivals})
    partials = partials_of(run)
    moments = {row["kind"]: row for row in partials["moments"]}
    earliest = moments["earliest"]
    (rhythm,) = partials["rhythm"]

    assert (earliest["n"], earliest["min_ns"], earliest["max_ns"]) == (4, 0, 2_000_000)
    assert (earliest["zero_count"], earliest["negative_count"]) == (3, 0)
    # As much is not known of each: 1, 3, 3 and 3 ms; since they were sent, which took 0.1 ms, 1, 2.9, 2.9 and 2.9.
    assert [resolution_of(moments[kind]) for kind in ("intended", "earliest", "sent")] == [
        (10_000_000, 3_000_000), (10_000_000, 3_000_000), (9_700_000, 2_900_000),
    ]  # fmt: skip
    assert rhythm["resolution_mean_ns"] == 2_500_000


def test_an_arrival_that_cannot_be_told_from_others_keeps_the_resolution_of_its_read(study):
    """When it was due is not known then, so it may have come at any time within its read."""
    sent = four_messages()
    arrivals = [without_number(message, 3, message["seq"]) | {"resolution_ns": 5_000_000} for message in sent[:3]]
    run = RunBuilder(more={"identity": {"form": "order"}}).write(
        study, publications={"p": sent}, deliveries={"s": arrivals}
    )

    assert [row["resolution_mean_ns"] for row in partials_of(run)["rhythm"]] == [5_000_000]


def resolution_of(moments):
    return moments["resolution_sum_ns"], moments["resolution_max_ns"]
