"""Raw files of a run to partial results, without Spark; every number can be counted on paper."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pipeline_runs import MS, RunBuilder, arrival, publication, write_rows

from brokerlab.pipeline.manifests import read_facts
from brokerlab.pipeline.reduce.work import Work, bundles_of, pieces_of, reduce_work
from brokerlab.pipeline.schemas import arrow_schema
from brokerlab.pipeline.schemas.families import PARTIALS
from brokerlab.record.schemas import DELIVERIES

pytestmark = pytest.mark.pipeline


def partials_of(run):
    """Rows by family, of all pieces of work of a run."""
    families = {field.name: [] for field in arrow_schema(PARTIALS) if field.name != "run_id"}
    for work in pieces_of(read_facts(run)):
        for batch in reduce_work(work):
            assert batch.schema.equals(arrow_schema(PARTIALS))
            for row in batch.to_pylist():
                ((family, content),) = ((name, row[name]) for name in families if row[name] is not None)
                families[family].append(content)
    return families


def ledger(run, *names):
    """The sums of some columns over all flows."""
    flows = partials_of(run)["flow"]
    return {name: sum(flow[name] for flow in flows) for name in names}


def four_messages():
    return [publication(seq, 2000 + 100 * seq) for seq in range(4)]


def test_what_comes_with_another_size_is_counted_once_and_delivered_all_the_same(study):
    """The second came with 63 of 64 B, and so a second time; what a source does not tell is not held against it."""
    sent = four_messages()
    arrivals = [arrival(message, 1) for message in sent]
    arrivals[1]["payload_bytes"], arrivals[3]["payload_bytes"] = 63, None
    arrivals.append(arrivals[1] | {"received_ns": arrivals[3]["received_ns"]})
    run = RunBuilder().write(study, publications={"p": sent}, deliveries={"s": arrivals})

    assert ledger(run, "delivered", "duplicated", "resized") == {"delivered": 4, "duplicated": 1, "resized": 1}


def test_all_delivered_in_order(study):
    sent = four_messages()
    run = RunBuilder().write(
        study, publications={"p": sent}, deliveries={"s": [arrival(message, 1) for message in sent]}
    )

    assert ledger(run, "arrivals", "delivered", "duplicated", "reordered") == {
        "arrivals": 4, "delivered": 4, "duplicated": 0, "reordered": 0,
    }  # fmt: skip


def test_what_is_acknowledged_when_nobody_listens_any_more_is_not_acknowledged(study):
    """Subscribers leave at 5 s: that the third message did not come after that is no loss."""
    early, lost, late = (publication(seq, 3900 + seq, acked=True) for seq in range(3))
    late["acked_ns"] = 5001 * MS
    run = RunBuilder(qos=1, subscribers={0: ("t/#", 1)}).write(
        study, publications={"p": [early, lost, late]}, deliveries={"s": [arrival(early, 1)]}
    )

    partials = partials_of(run)
    assert [row["acknowledged"] for row in partials["publisher"]] == [2]
    assert [(row["pairs"], row["acknowledged_pairs"]) for row in partials["expected"]] == [(3, 2)]


def test_duplicates_with_and_without_the_flag(study):
    sent = four_messages()
    arrivals = [
        arrival(sent[0], 1),
        arrival(sent[0], 2),
        arrival(sent[1], 1),
        arrival(sent[0], 9, dup=True),
        arrival(sent[1], 9, dup=True),
    ]
    run = RunBuilder().write(study, publications={"p": sent}, deliveries={"s": arrivals})

    assert ledger(run, "arrivals", "delivered", "duplicated", "duplicated_flagged", "reordered") == {
        "arrivals": 5, "delivered": 2, "duplicated": 3, "duplicated_flagged": 2, "reordered": 0,
    }  # fmt: skip


def test_a_late_message_is_reordered_once_and_its_duplicate_is_not(study):
    """Arrival order 0 3 1 1 2: 1 and 2 come below the highest seq before them."""
    sent = four_messages()
    run = RunBuilder().write(
        study, publications={"p": sent}, deliveries={"s": [arrival(sent[seq], 5) for seq in (0, 3, 1, 1, 2)]}
    )

    assert ledger(run, "delivered", "duplicated", "reordered") == {"delivered": 4, "duplicated": 1, "reordered": 2}


def test_flows_do_not_disturb_each_other(study):
    """Two publishers, two subscribers, arrivals interleaved: only publisher 1 at subscriber 1 is out of order."""
    sent = {p: [publication(seq, 2000 + 10 * seq, publisher=p) for seq in range(3)] for p in (0, 1)}
    order = [(0, 0, 0), (1, 1, 1), (0, 1, 0), (1, 1, 0), (0, 0, 1), (1, 0, 0), (0, 1, 1), (1, 1, 2), (1, 0, 2)]
    run = RunBuilder(publishers={0: "t/0", 1: "t/1"}, subscribers={0: ("t/#", 0), 1: ("t/#", 0)}).write(
        study,
        publications={"p": [*sent[0], *sent[1]]},
        deliveries={"s": [arrival(sent[p][seq], 1, subscriber=s) for s, p, seq in order]},
    )

    flows = {(flow["subscriber"], flow["publisher"]): flow for flow in partials_of(run)["flow"]}

    assert {key: (flow["delivered"], flow["reordered"]) for key, flow in flows.items()} == {
        (0, 0): (2, 0), (0, 1): (2, 0), (1, 0): (2, 0), (1, 1): (3, 1),
    }  # fmt: skip


def test_foreign_arrivals_are_unexpected_and_nothing_breaks(study):
    sent = four_messages()
    foreign = [
        arrival(sent[0], 1, publisher=2**32 - 1),
        arrival(sent[0], 1, seq=2**62),
        arrival(sent[0], 1, seq=4),
        arrival(sent[0], 1, seq=-1),
        arrival(sent[0], 1, publisher=-7),
        arrival(sent[0], 1, intended_ns=12345),  # publisher and seq of ours, but of another run
        arrival(sent[0], 1, subscriber=99),
    ]
    run = RunBuilder().write(study, publications={"p": sent}, deliveries={"s": [*foreign, arrival(sent[0], 1)]})

    assert partials_of(run)["unexpected"] == [
        {"subscriber": 0, "qos_granted": 0, "arrivals": 6},
        {"subscriber": 99, "qos_granted": None, "arrivals": 1},
    ]
    assert ledger(run, "arrivals", "delivered") == {"arrivals": 1, "delivered": 1}


def test_a_subscription_that_does_not_match_expects_nothing(study):
    sent = four_messages()
    run = RunBuilder(subscribers={0: ("other/#", 0), 1: ("t/+", 0)}).write(
        study,
        publications={"p": sent},
        deliveries={"s": [arrival(sent[0], 1, subscriber=0), arrival(sent[0], 1, subscriber=1)]},
    )
    partials = partials_of(run)

    assert partials["expected"] == [{"qos_granted": 0, "pairs": 4, "acknowledged_pairs": 0, "crossing_pairs": None}]
    assert partials["unexpected"] == [{"subscriber": 0, "qos_granted": 0, "arrivals": 1}]


def test_a_message_that_never_reached_the_wire_is_not_expected(study):
    sent = four_messages()
    sent[3]["sent_ns"] = None
    run = RunBuilder().write(study, publications={"p": sent}, deliveries={"s": [arrival(sent[3], 1)]})
    partials = partials_of(run)

    assert partials["publisher"][0]["published"] == partials["expected"][0]["pairs"] == 3
    assert partials["unexpected"][0]["arrivals"] == 1


def test_acknowledged_pairs_and_deliveries_are_told_apart(study):
    """0 acknowledged and delivered, 1 acknowledged and lost, 2 delivered without acknowledgement."""
    sent = [publication(0, 2000, acked=True), publication(1, 2100, acked=True), publication(2, 2200)]
    run = RunBuilder(qos=1, subscribers={0: ("t/#", 1), 1: ("t/#", 0)}).write(
        study, publications={"p": sent}, deliveries={"s": [arrival(sent[0], 1), arrival(sent[2], 1)]}
    )

    assert partials_of(run)["expected"] == [
        {"qos_granted": 0, "pairs": 3, "acknowledged_pairs": 2, "crossing_pairs": None},
        {"qos_granted": 1, "pairs": 3, "acknowledged_pairs": 2, "crossing_pairs": None},
    ]
    assert ledger(run, "delivered", "acknowledged_delivered") == {"delivered": 2, "acknowledged_delivered": 1}


def test_only_the_measure_phase_makes_latency(study):
    """1.9 s is warm-up, 2.0 s is the first moment of the measure phase, 4.0 s is after its last."""
    sent = [publication(seq, at_ms) for seq, at_ms in enumerate([1900, 2000, 3999.9, 4000])]
    run = RunBuilder().write(
        study, publications={"p": sent}, deliveries={"s": [arrival(message, 3) for message in sent]}
    )
    partials = partials_of(run)

    assert [(row["kind"], row["n"]) for row in partials["moments"]] == [("intended", 2), ("sent", 2), ("earliest", 2)]
    assert ledger(run, "delivered", "measured_delivered") == {"delivered": 4, "measured_delivered": 2}
    assert partials["publisher"][0]["measured"] == 2


def test_zero_and_negative_latencies_are_counted(study):
    sent = four_messages()
    run = RunBuilder().write(
        study,
        publications={"p": sent},
        deliveries={"s": [arrival(message, after_ms) for message, after_ms in zip(sent, (0, -2, 1, 1), strict=True)]},
    )
    moments = partials_of(run)["moments"][0]

    assert (moments["n"], moments["zero_count"], moments["negative_count"]) == (4, 1, 1)
    assert (moments["min_ns"], moments["max_ns"], moments["sum_ns"]) == (-2 * MS, MS, 0)
    assert [row["bucket"] for row in partials_of(run)["bucket"]][:2] == [-2, -1]


@pytest.mark.parametrize(("rows_per_file", "rows_at_once"), [(1, 9), (2, 9), (3, 2), (100, 9), (100, 1), (100, 4)])
def test_files_of_a_worker_are_one_stream(study, monkeypatch, rows_per_file, rows_at_once):
    """Order 0 2 1 2 3 0: one late, two duplicates, wherever a file or a portion of it ends."""
    monkeypatch.setattr("brokerlab.pipeline.reduce.work._ROWS_AT_ONCE", rows_at_once)
    sent = four_messages()
    run = RunBuilder().write(study)
    write_rows(run, "publications", "p-0", sent, rows_per_file=rows_per_file)
    arrivals = [arrival(sent[seq], 1) for seq in (0, 2, 1, 2, 3, 0)]
    write_rows(run, "deliveries", "s-0", arrivals, rows_per_file=rows_per_file)

    assert len(run.files("deliveries")) == -(-6 // rows_per_file)
    assert ledger(run, "arrivals", "delivered", "duplicated", "reordered") == {
        "arrivals": 6, "delivered": 4, "duplicated": 2, "reordered": 1,
    }  # fmt: skip


def test_workers_are_pieces_of_their_own(study):
    sent = four_messages()
    run = RunBuilder(subscribers={0: ("t/#", 0), 1: ("t/#", 0)}).write(
        study,
        publications={"p": sent},
        deliveries={f"subscribers-{s}": [arrival(message, 1, subscriber=s) for message in sent] for s in (0, 1)},
    )

    assert [len(work.deliveries) for work in pieces_of(read_facts(run))] == [0, 1, 1]
    assert ledger(run, "delivered") == {"delivered": 8}


def test_gaps_in_the_publications_of_a_cut_off_run_are_not_expected(study):
    sent = four_messages()
    run = RunBuilder().write(study, publications={"p": [sent[0], sent[3]]}, deliveries={"s": [arrival(sent[3], 1)]})

    assert partials_of(run)["expected"] == [
        {"qos_granted": 0, "pairs": 2, "acknowledged_pairs": 0, "crossing_pairs": None}
    ]
    assert ledger(run, "delivered") == {"delivered": 1}


def test_a_run_without_any_file_expects_nothing_and_does_not_fail(study):
    partials = partials_of(RunBuilder().write(study))

    assert partials["expected"] == [{"qos_granted": 0, "pairs": 0, "acknowledged_pairs": 0, "crossing_pairs": None}]
    assert partials["flow"] == partials["problem"] == []


def test_a_load_without_subscribers_still_has_a_ledger(study):
    partials = partials_of(RunBuilder(subscribers={}).write(study, publications={"p": four_messages()}))

    assert partials["expected"] == [{"qos_granted": None, "pairs": 0, "acknowledged_pairs": 0, "crossing_pairs": None}]
    assert partials["publisher"][0]["published"] == 4


def test_a_file_without_rows_is_fine(study):
    run = RunBuilder().write(study, publications={"p": four_messages()})
    run.raw("deliveries").mkdir()
    pq.write_table(DELIVERIES.empty_table(), run.raw("deliveries") / "s-00000.parquet")

    assert ledger(run, "delivered") == {"delivered": 0}
    assert partials_of(run)["problem"] == []


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-20]), "deliveries/s-00000.parquet cannot be read"),
        (lambda path: path.write_bytes(b""), "deliveries/s-00000.parquet cannot be read"),
        (lambda path: pq.write_table(pa.table({"seq": [1]}), path), "deliveries/s-00000.parquet cannot be read"),
    ],
    ids=["truncated", "empty", "other columns"],
)
def test_a_damaged_file_becomes_a_problem_that_names_it(study, damage, says):
    sent = four_messages()
    run = RunBuilder().write(study, publications={"p": sent}, deliveries={"s": [arrival(sent[0], 1)]})
    damage(run.files("deliveries")[0])

    (problem,) = partials_of(run)["problem"]

    assert problem["reason"].startswith(says)


def test_nulls_where_there_may_be_none_are_a_problem(study):
    run = RunBuilder().write(study, publications={"p": four_messages()})
    table = pq.read_table(run.files("publications")[0])
    holes = pa.array([0, None, 2, 3], pa.int64())
    pq.write_table(table.drop_columns("seq").append_column("seq", holes), run.files("publications")[0])

    assert "'seq' with null values" in partials_of(run)["problem"][0]["reason"]


@pytest.mark.parametrize("seqs", [(0, 1, 1), (0, 2**40), (0, -3)], ids=["twice", "absurd", "negative"])
def test_sequence_numbers_that_do_not_count_are_a_problem(study, seqs):
    run = RunBuilder().write(study, publications={"p": [publication(seq, 2000) for seq in seqs]})

    assert "publications/ cannot be used" in partials_of(run)["problem"][0]["reason"]


def test_bundles_hold_every_piece_once(study):
    runs = [RunBuilder(repetition=n).write(study, publications={"p": four_messages()[:n]}) for n in range(1, 5)]
    work = [Work(read_facts(run)) for run in runs]

    bundles = bundles_of(work, count=3)

    assert len(bundles) == 3
    assert sorted(piece.run.run_id for bundle in bundles for piece in bundle) == sorted(w.run.run_id for w in work)


def test_many_random_arrivals_agree_with_counting_one_by_one(study):
    """The arrays against the plainest possible loop."""
    generator = np.random.default_rng(7)
    sent = {p: [publication(seq, 2000 + seq, publisher=p) for seq in range(30)] for p in range(3)}
    keys = [tuple(int(n) for n in generator.integers(0, (2, 3, 30))) for _ in range(400)]
    run = RunBuilder(publishers={p: f"t/{p}" for p in range(3)}, subscribers=dict.fromkeys(range(2), ("t/#", 0))).write(
        study, publications={"p": [message for own in sent.values() for message in own]}
    )
    write_rows(
        run, "deliveries", "s", [arrival(sent[p][seq], 1, subscriber=s) for s, p, seq in keys], rows_per_file=150
    )

    seen, highest, duplicated, reordered = set(), {}, 0, 0
    for s, p, seq in keys:
        is_first = (s, p, seq) not in seen
        duplicated += not is_first
        reordered += is_first and seq < highest.get((s, p), -1)
        seen.add((s, p, seq))
        highest[s, p] = max(seq, highest.get((s, p), -1))

    assert ledger(run, "delivered", "duplicated", "reordered") == {
        "delivered": len(seen), "duplicated": duplicated, "reordered": reordered,
    }  # fmt: skip
