"""Tables apart from the analysis, counted on paper: also from nothing, from nulls, twice, and however the rows lie."""

import pytest
from pipeline_apart import APART, LOST, answer, bucket, gateway, number, ours, printed
from pyspark.errors import PySparkException
from pyspark.testing import assertSchemaEqual

from brokerlab.pipeline.schemas import table_of
from brokerlab.pipeline.tables import TABLES_APART

pytestmark = pytest.mark.pipeline

# In the order of the columns that are named; every number can be had from pipeline_apart.py with a pencil.
ON_PAPER = {
    "boxes": (
        "cell n min_ms q1_ms median_ms q3_ms max_ms low_whisker_ms high_whisker_ms outliers outliers_ms",
        [("c", 10, 0.5, 2.0, 3.0, 4.0, 19.5, 1.0, 4.0, 1, [20.0])],
    ),
    "equations": (
        "run_id equation seen_by as_printed corrected",
        [
            ("a/1", "7", "clients", 4.0, 5.0),  # 8 · 5 ms of the 10 published, of the 8 that came
            ("a/1", "8", "clients", 2.0, 2.0),
            ("a/1", "9", "clients", 2.0, 2.0),
            ("a/1", "10", "clients", 0.0, 5.0),  # as many left as came; 1 of 20 is lost
            ("a/1", "11", "clients", 1.25, 20.0),
            ("a/1", "availability", "clients", None, 80.0),
            ("a/1", "month of 100000 a day", "ledger", None, 150_000.0),
            ("a/1", "month of 218772 a day", "ledger", None, 328_158.0),
            ("a/1", "hours of a month", "ledger", None, 36.0),
        ],
    ),
    "published": (
        "source printed_broker our_broker compared printed_ratio our_ratio printed_rank our_rank same_place",
        [
            ("002/table10", "C", None, None, None, None, None, None, None),
            ("002/table10", "A", "a", 2, 1.0, 1.0, 1, 2, False),
            ("002/table10", "B", "b", 2, 4.0, 0.5, 2, 1, False),
            ("002/table10", "A", "a-too", None, None, None, None, None, None),
            ("002/table6", "A", "a", 2, 1.0, 1.0, 1, 2, False),
            ("002/table6", "B", "b", 2, 4.0, 0.5, 2, 1, False),
            ("002/table6", "A", "a-too", None, None, None, None, None, None),
        ],
    ),
    "rankings": (
        "of circumstances qos kind name value place floor is_tie",
        [
            ("002", "local", "0", "non-scalable", "A", 1.0, 1, None, None),
            ("002", "local", "0", "all", "C", 2.0, 2, None, None),
            ("002", "local", "0", "non-scalable", "B", 4.0, 3, None, None),
            ("ours", "", "0", None, "b", 3.0, 1, 1.0, None),
            ("ours", "", "0", None, "a-too", 5.0, 2, 1.0, False),
            ("ours", "", "0", None, "a", 6.0, 3, 1.0, True),
            ("ours", "", "0", None, "e", 8.0, 4, 1.0, False),
            ("ours", "", "1", None, "b", 9.0, 1, None, None),
        ],
    ),
    "claims": (
        "claim verdict cells contradicted numbers",
        [
            ("x-order", "holds", 1, 0, "QoS 0: A 1, B 2, C 3"),
            ("x-first", "does not hold", 1, 1, "QoS 0: B 1, A 2"),
            ("x-change", "does not hold", 2, 1, "1 of 2: A, QoS 0: 1 to 2"),
            ("x-limit", "holds", 1, 0, "QoS 0: 2"),
            ("x-formula", "does not hold", 2, 1, "1 of 2: B, QoS 0: 5 printed, 4 computed"),
            ("x-share", "holds", 1, 0, "t4 prints 33 % for 'yes'; 1 of 3 brokers listed as multi are 33 %"),
            ("x-member", "holds", 1, 0, "A is listed as multi"),
            ("x-stands", "does not hold", 1, 1, "latency of 3 brokers, cloud, stands in "),
            ("x-survive", "does not hold", 1, 1, "p sent 90 % and is 66.67 % of what arrived"),
        ],
    ),
    "quality": (
        "broker feature raters answers unknown sheet_low sheet_high measured differs weight_low weight_high",
        [
            ("a", "easy", 2, 2, 0, 3.0, 3.0, None, None, 0.6, 0.6),
            ("a", "qos", 2, 2, 0, 3.0, 3.0, None, None, 1.0, 1.0),
            ("b", "easy", 2, 2, 1, 5.0, 5.0, None, None, 1.0, 1.0),
            ("b", "qos", 2, 2, 0, 1.5, 2.0, 3.0, True, 1.0, 1.0),
            ("c", "easy", 1, 1, 1, None, None, None, None, 0.0, 1.0),
            ("c", "qos", 1, 1, 0, 1.0, 1.0, None, None, 1 / 3, 1 / 3),
        ],
    ),
    "quality_scores": (
        "broker score_low score_high score rank rank_best rank_worst selected selection_is_certain",
        [
            ("b", 2.0, 2.0, 2.0, 1, 1, 1, True, True),
            ("a", 1.6, 1.6, 1.6, 2, 2, 2, False, True),
            ("c", 1 / 3, 4 / 3, 0.833333333, 3, 3, 3, False, True),
        ],
    ),
    "quality_groups": (
        "group broker member",
        [
            ("easy", "a", False), ("easy", "b", True), ("easy", "c", None),
            ("whole", "a", True), ("whole", "b", True), ("whole", "c", False),
        ],
    ),
    "quality_levels": (
        "label brokers percent",
        [
            ("easy 5", 1, 33.0), ("easy 4", 0, 0.0), ("easy 3", 1, 33.0), ("easy 2", 0, 0.0), ("easy 1", 0, 0.0),
            ("unknown", 1, 33.0), ("qos 3", 2, 67.0), ("qos 2", 0, 0.0), ("qos 1", 1, 33.0),
        ],
    ),
    "quality_agreement": (
        "feature raters units alpha",
        [("easy", 2, 1, 0.0), ("qos", 2, 1, None)],  # of two levels all pairs differ; nothing varies
    ),
}  # fmt: skip
NAMES = pytest.mark.parametrize("name", APART)
# Traces have a file of their own.
assert set(APART) == set(ON_PAPER) == set(TABLES_APART) - {"traces"}


def chosen(rows, columns):
    return [tuple(row[name] for name in columns.split()) for row in rows]


def rows_of(frame, columns):
    return chosen(frame.collect(), columns)


def as_counted(name, rows):
    """Whether the rows are those on paper, in the order of the table."""
    columns, expected = ON_PAPER[name]
    return rounded(chosen(rows, columns)) == rounded(expected)


def rounded(rows):
    return [tuple(round(value, 9) if isinstance(value, float) else value for value in row) for row in rows]


@pytest.mark.parametrize("parts", [None, 5], ids=["in order", "reordered and repartitioned"])
@NAMES
def test_every_row_as_counted_on_paper(spark, name, parts):
    made = APART[name].of(spark, parts=parts)
    rows = made.collect()

    assertSchemaEqual(made.schema, table_of(name).columns)
    assert as_counted(name, rows), rows
    assert len({tuple(row[key] for key in table_of(name).grain) for row in rows}) == len(rows)


@NAMES
def test_no_input_no_rows(spark, name):
    made = APART[name]
    nothing = {part: given.__class__(given.schema, []) for part, given in made.inputs.items()}
    empty = made.of(spark, **nothing)

    assertSchemaEqual(empty.schema, table_of(name).columns)
    assert empty.collect() == []


# ---- what is there twice -------------------------------------------------------------------------------------------


def twice(name, part):
    given = APART[name].inputs[part]
    return {part: given.and_also(*given.rows)}


@pytest.mark.parametrize(
    ("name", "part"),
    [("boxes", "latency"), ("boxes", "runs"), ("equations", "delivery"), ("equations", "legs"), ("rankings", "values"),
     ("rankings", "lab")],
)  # fmt: skip
def test_a_row_that_is_there_twice_changes_nothing(spark, name, part):
    rows = APART[name].of(spark, **twice(name, part)).collect()

    assert as_counted(name, rows), rows


@pytest.mark.parametrize(
    ("name", "part", "told"),
    [("equations", "runs", "a/1"), ("equations", "latency", "a/1"), ("equations", "throughput", "a/1"),
     ("quality", "answers", "s, a, 1, ann, 1, easy")],
)  # fmt: skip
def test_a_key_that_is_there_twice_is_refused_and_not_counted_double(spark, name, part, told):
    given = APART[name].inputs[part]
    made = APART[name].of(spark, **{part: given.and_also(given.rows[0])})

    with pytest.raises(PySparkException, match=f"there twice: {told}"):
        made.collect()


def test_counts_of_one_bucket_add_up(spark):
    """Histograms are mergeable: two rows of a bucket are two parts of its count, and no quartile moves."""
    (box,) = APART["boxes"].of(spark, **twice("boxes", "histogram")).collect()

    assert (box.n, box.outliers, box.q1_ms, box.median_ms, box.q3_ms) == (20, 2, 2.0, 3.0, 4.0)


@pytest.mark.parametrize("part", ["values", "lab"])
def test_a_broker_that_is_there_twice_is_compared_once(spark, part):
    rows = APART["published"].of(spark, **twice("published", part)).collect()
    compared = [(row.source, row.printed_broker, row.our_rank) for row in rows if row.compared]

    assert {row.compared for row in rows} == {2, None}
    assert sorted(compared) == [
        ("002/table10", "A", 2), ("002/table10", "B", 1), ("002/table6", "A", 2), ("002/table6", "B", 1),
    ]  # fmt: skip


# ---- what is not known ---------------------------------------------------------------------------------------------


def test_buckets_and_ends_that_are_not_known_are_no_messages_at_zero(spark):
    made = APART["boxes"]
    ends = made.inputs["latency"]
    unknown = ends.__class__(ends.schema, [row | {"min_ms": None} for row in ends.rows])
    counts = made.inputs["histogram"].and_also(bucket("c/1", 1, None))
    (box,) = made.of(spark, latency=unknown, histogram=counts).collect()

    assert (box.n, box.min_ms, box.max_ms, box.q1_ms) == (10, None, 19.5, 2.0)


@pytest.mark.parametrize(
    ("part", "column", "unknown"),
    [
        ("latency", "mean_ms", {"7"}),
        ("delivery", "lost", {"10", "month of 100000 a day", "month of 218772 a day", "hours of a month"}),
        ("throughput", "acknowledged", {"8", "11", "availability"}),
        ("throughput", "delivered", {"9"}),
        ("throughput", "seconds", {"8", "9"}),
    ],
)
def test_an_equation_of_something_unknown_is_null(spark, part, column, unknown):
    """Also where it is unknown of one contract only: the losses of the other are not those of the run."""
    given = APART["equations"].inputs[part]
    first, *others = given.rows
    changed = given.__class__(given.schema, [first | {column: None}, *others])
    rows = APART["equations"].of(spark, **{part: changed}).collect()

    assert {row.equation for row in rows if row.corrected is None} == unknown


def test_a_value_of_ours_that_is_not_known_has_no_place(spark):
    lab = APART["rankings"].inputs["lab"].and_also(ours("0-unknown", None))
    places = rows_of(APART["rankings"].of(spark, lab=lab), "of qos name place")

    assert [place for place in places if place[:2] == ("ours", "0")] == [
        ("ours", "0", "b", 1), ("ours", "0", "a-too", 2), ("ours", "0", "a", 3), ("ours", "0", "e", 4),
    ]  # fmt: skip


def test_a_second_name_is_compared_where_the_first_has_no_value(spark):
    lab = APART["published"].inputs["lab"].and_also(ours("0-unknown", None, broker="a"))
    rows = APART["published"].of(spark, lab=lab).collect()

    assert {row.our_broker: row.our_rank for row in rows if row.source == "002/table6"} == {
        "0-unknown": None, "a": 2, "a-too": None, "b": 1,
    }  # fmt: skip


def test_a_count_that_is_not_known_leaves_a_claim_undecided(spark):
    values = APART["claims"].inputs["values"].and_also(gateway("q", None, metric=LOST))
    verdicts = dict(rows_of(APART["claims"].of(spark, values=values), "claim verdict"))

    assert verdicts["x-survive"] == "undecided"
    assert verdicts["x-order"] == "holds"


def test_a_change_without_a_qos_is_told_too(spark):
    more = (number("t5", "z", 4.0, qos=None), number("t5", "z", 6.0, qos=None, environment="cloud"))
    values = APART["claims"].inputs["values"].and_also(*more)
    told = dict(rows_of(APART["claims"].of(spark, values=values), "claim numbers"))

    assert told["x-change"] == "2 of 3: A, QoS 0: 1 to 2; Z: 4 to 6"


def test_an_answer_of_nobody_is_unknown_and_no_level(spark):
    given = APART["quality"].inputs["answers"].and_also(answer("d", "ann", "qos", None))
    rows = {row.broker: row for row in APART["quality"].of(spark, answers=given).collect() if row.feature == "qos"}

    assert (rows["d"].level_low, rows["d"].weight_low, rows["d"].weight_high, rows["d"].unknown) == (None, 0.0, 1.0, 1)


# ---- one number in two tables, two numbers in two tables -----------------------------------------------------------


@pytest.mark.parametrize("parts", [None, 5])
def test_two_tables_with_different_numbers_of_one_broker_are_two_rankings(spark, parts):
    """003 prints the same brokers over an echo and over a loop: either order of the two is wrong as one ranking."""
    values = APART["rankings"].inputs["values"].and_also(
        printed("003/table3", "a", 7.0), printed("003/table3", "b", 8.0),
        printed("003/table4", "a", 6.0), printed("003/table4", "b", 5.0), printed("003/table4", "c", 4.0),
    )  # fmt: skip
    places = rows_of(APART["rankings"].of(spark, parts=parts, values=values), "of circumstances name place")

    assert [place[1:] for place in places if place[0] == "003"] == [
        ("local, table3", "A", 1), ("local, table3", "B", 2),
        ("local, table4", "C", 1), ("local, table4", "B", 2), ("local, table4", "A", 3),
    ]  # fmt: skip


@pytest.mark.parametrize("parts", [None, 5])
def test_ratios_are_to_one_broker_where_two_share_the_first_place(spark, parts):
    values = (
        APART["published"].inputs["values"].and_also(printed("002/table8", "a", 2.0), printed("002/table8", "b", 2.0))
    )
    rows = rows_of(
        APART["published"].of(spark, parts=parts, values=values), "source printed_broker our_broker our_ratio"
    )

    assert [row[1:] for row in rows if row[0] == "002/table8"] == [
        ("A", "a", 1.0), ("B", "b", 0.5), ("A", "a-too", None),
    ]  # fmt: skip
