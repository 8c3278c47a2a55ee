import pytest
from report_values import delivery_row, results_of

from brokerlab.report.answer import Answer, answer
from brokerlab.report.cells import groups
from brokerlab.report.results import Results

pytestmark = pytest.mark.unit


def answer_of(results: Results) -> Answer:
    return answer(results, groups(results))


def test_answer_names_the_best_and_says_that_it_is_told_apart():
    found = answer_of(results_of({("fast", 0): (1.0, 0.9, 1.1), ("slow", 0): (2.0, 1.8, 2.2)}))

    assert found.lead == "fast had the lowest p99 latency, told apart from every other broker."
    assert found.points[0].broker == "fast"
    assert found.points[0].value == "p99 latency 1.00 ms (95 % interval 0.90 – 1.10 ms)"


def test_answer_says_which_brokers_are_not_told_apart():
    found = answer_of(
        results_of({("a", 0): (1.0, 0.8, 1.2), ("b", 0): (1.1, 0.9, 1.3), ("c", 0): (5.0, 4.0, 6.0)}),
    )

    assert found.lead == "a had the lowest p99 latency, not told apart from b by these 3 runs each."
    assert found.points[0].remarks == ("not told apart by these 3 runs each: b",)


def test_answer_goes_by_the_other_factors():
    found = answer_of(
        results_of(
            {
                ("a", 0): (1.0, 0.9, 1.1),
                ("b", 0): (2.0, 1.9, 2.1),
                ("a", 1): (1.5, 1.4, 1.6),
                ("b", 1): (2.5, 2.4, 2.6),
                ("a", 2): (4.0, 3.9, 4.1),
                ("b", 2): (3.0, 2.9, 3.1),
            }
        )
    )

    assert found.lead == "a had the lowest p99 latency at QoS 0 and 1, b at QoS 2, told apart from every other broker."
    assert [point.label for point in found.points] == ["QoS 0", "QoS 1", "QoS 2"]


def test_answer_touching_intervals_are_not_told_apart():
    found = answer_of(results_of({("a", 0): (1.0, 0.9, 1.1), ("b", 0): (1.2, 1.1, 1.3)}))

    assert "not told apart from b" in found.lead


def test_answer_larger_is_better_for_rates():
    rates = {("a", 0): (1000.0, 990.0, 1010.0), ("b", 0): (2000.0, 1990.0, 2010.0)}

    found = answer_of(results_of(rates, rank_by="throughput.delivered_per_s"))

    assert found.lead.startswith("b had the highest delivery rate")


def test_answer_without_valid_runs():
    found = answer_of(results_of({("a", 0): (1.0, None, None)}, runs=0, invalid={("a", 0): 2}))

    assert found.lead == "No answer: none of the 2 runs is valid."
    assert found.points == ()
    assert found.notes[0].startswith("2 of 2 runs are invalid")


def test_answer_without_any_run():
    assert answer_of(results_of({})).lead == "No answer: no run has been made."


def test_answer_with_one_run_each_tells_nothing_apart():
    found = answer_of(results_of({("a", 0): (1.0, None, None), ("b", 0): (9.0, None, None)}, runs=1))

    assert found.lead.endswith("one valid run per broker gives no interval: nothing is told apart.")
    assert found.points[0].remarks == ("not told apart by one run each: b",)


def test_answer_with_one_broker_ranks_nothing():
    assert "nothing to rank against" in answer_of(results_of({("a", 0): (1.0, 0.9, 1.1)})).lead


def test_answer_mentions_invalid_runs():
    found = answer_of(results_of({("a", 0): (1.0, 0.9, 1.1), ("b", 0): (2.0, 1.9, 2.1)}, invalid={("b", 0): 1}))

    assert found.notes == (
        "1 of 7 runs is invalid and left out of every mean; the reasons stand under «Validity of every run».",
    )


def test_answer_names_a_broker_without_a_valid_result():
    results = results_of({("a", 0): (1.0, 0.9, 1.1), ("b", 0): (float("nan"), None, None)})

    assert answer_of(results).points[0].remarks == ("without a valid result: b",)


def test_answer_warns_of_a_winner_that_broke_its_contract():
    ledger = [delivery_row("a", 1, 1, "kept"), delivery_row("a", 1, 2, "broken"), delivery_row("a", 1, 3, "kept")]

    found = answer_of(results_of({("a", 1): (1.0, 0.9, 1.1), ("b", 1): (2.0, 1.9, 2.1)}, delivery=ledger))

    assert found.points[0].warnings == ("a broke «at least once» in 1 of 3 runs",)


def test_answer_warns_of_a_winner_that_granted_less_than_asked():
    ledger = [delivery_row("a", 2, number, "kept", granted=1) for number in (1, 2, 3)]

    found = answer_of(results_of({("a", 2): (1.0, 0.9, 1.1), ("b", 2): (2.0, 1.9, 2.1)}, delivery=ledger))

    assert found.points[0].warnings == ("a granted QoS 1 where QoS 2 was asked",)


def test_answer_counts_many_different_ties():
    estimates = {}
    for qos, names in enumerate(("ab", "bc", "cd", "de")):
        estimates |= {(names[0], qos): (1.0, 0.5, 1.5), (names[1], qos): (1.1, 0.6, 1.6)}

    found = answer_of(results_of(estimates))

    assert found.lead == "In all 4 cases the best is not told apart from at least one other broker."


def test_answer_unknown_metric_is_not_guessed():
    found = answer_of(results_of({("a", 0): (1.0, 0.9, 1.1)}, rank_by="traffic.overhead"))

    assert found.lead == "No answer: the report cannot rank by traffic.overhead."


def test_answer_counts_places_where_they_are_many():
    """The second key stands for QoS; seven groups of it."""
    values = {}
    for qos in range(7):
        for broker, mean in (("a", 1.0 if qos < 2 else 3.0), ("b", 2.0)):
            values[broker, qos] = (mean, mean - 0.1, mean + 0.1)

    found = answer_of(results_of(values))

    assert found.lead == "b had the lowest p99 latency in 5 of 7 cases, a in 2, told apart from every other broker."


def test_answer_with_one_broker_by_plan_says_where_it_is_best_and_worst():
    values = {("a", 0): (1.0, 0.9, 1.1), ("a", 1): (3.0, 2.9, 3.1), ("a", 2): (2.0, 1.9, 2.1)}

    found = answer_of(results_of(values))

    assert found.lead == "The p99 latency of a, the only broker, is from 1.00 ms (QoS 0) to 3.00 ms (QoS 1)."
