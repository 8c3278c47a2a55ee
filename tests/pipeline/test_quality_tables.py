"""Weights, scores, places, groups and shares of sheets on Spark (M-11, M-12, M-16 to M-18, F-04)."""

import pytest
from pyspark.testing import assertSchemaEqual

from brokerlab.pipeline.quality import Frames, Judging, agreement_table
from brokerlab.pipeline.schemas.quality import TABLE as QUALITY
from brokerlab.pipeline.schemas.quality_groups import TABLE as GROUPS
from brokerlab.pipeline.schemas.quality_levels import TABLE as LEVELS
from brokerlab.pipeline.schemas.quality_scores import TABLE as SCORES
from brokerlab.pipeline.transforms.quality import groups_table, judgements, levels_table, quality_table, scores_table
from brokerlab.quality.answers import MEASURED, Answer
from brokerlab.quality.model import read_model
from brokerlab.quality.paper import paper_answers, paper_tallies

pytestmark = pytest.mark.pipeline
MODEL = read_model()
ROOFS = {feature.id: feature.roof for feature in MODEL.features}


def answers_of(broker, *, rater="ann", **levels):
    """The best level of every feature, but for those that are given; None is unknown."""
    given = ROOFS | levels
    return [Answer("mine", broker, "1", rater, 1, name, given[name], given[name], None, "a page") for name in ROOFS]


@pytest.fixture(scope="module")
def mine(spark):
    """all has the best of everything; less a level less in two features, by its second rater in three; dim no words."""
    answers = [
        *answers_of("all"), *answers_of("all", rater="bob"),
        *answers_of("less", installation_easiness=4, qos_levels=2, operating_systems=2),
        *answers_of("less", rater="bob", installation_easiness=2, qos_levels=2, operating_systems=2),
        *answers_of("dim", documentation_completeness=None, qos_levels=1),
        Answer("mine", "dim", "1", MEASURED, 1, "qos_levels", 3, 3, None, "the contract suite"),
    ]  # fmt: skip
    frames = Frames(spark, MODEL)
    given = frames.answers(answers)
    return frames, given, quality_table(given).cache()


def test_weights_are_level_over_roof_and_the_mean_of_the_raters(mine):
    """M-11, M-17: installation 4 and 2 of 5 is 0.6; QoS 2 of 3; what was measured counts instead of the sheet."""
    _, _, quality = mine
    rows = {(row.broker, row.feature): row for row in quality.collect()}

    assertSchemaEqual(quality.schema, QUALITY.columns)
    easy = rows["less", "installation_easiness"]
    assert (easy.raters, easy.weight_low, easy.weight_high) == (2, pytest.approx(0.6), pytest.approx(0.6))
    assert rows["less", "qos_levels"].weight_low == pytest.approx(2 / 3)
    qos = rows["dim", "qos_levels"]
    assert (qos.sheet_low, qos.measured, qos.differs, qos.weight_low) == (1.0, 3.0, True, 1.0)


def test_scores_are_sums_of_nine_with_a_range_where_something_is_unknown(mine):
    """M-12, M-18: 9; 9 - 0.4 - 1/3 - 1/3; 8 to 9. Who is first is certain for one of a choice of one."""
    scores = scores_table(mine[2], select=1)
    rows = {row.broker: row for row in scores.collect()}

    assertSchemaEqual(scores.schema, SCORES.columns)
    assert list(rows) == ["all", "dim", "less"]
    assert (rows["all"].score_low, rows["all"].most, rows["all"].rank) == (pytest.approx(9.0), 9, 1)
    assert rows["less"].score == pytest.approx(9 - 0.4 - 2 / 3)
    assert (rows["dim"].score_low, rows["dim"].score_high) == (pytest.approx(8.0), pytest.approx(9.0))
    assert (rows["dim"].rank_best, rows["dim"].rank_worst, rows["dim"].unknown) == (1, 2, 1)
    assert [row.selected for row in rows.values()] == [True, False, False]


def test_groups_follow_from_the_level_that_decides_them(mine):
    frames, _, quality = mine
    groups = groups_table(quality, memberships=frames.memberships())
    rows = {(row.group, row.broker): row.member for row in groups.collect()}

    assertSchemaEqual(groups.schema, GROUPS.columns)
    assert rows["multi_platform", "all"] is True
    assert rows["multi_platform", "less"] is False


def test_agreement_needs_two_raters_and_is_full_where_they_agree(mine):
    """F-04: the two say the same of two brokers about QoS; dim has one rater."""
    _, given, _ = mine
    rows = {row.feature: row for row in agreement_table(judgements(given), judging=Judging()).collect()}

    assert (rows["qos_levels"].raters, rows["qos_levels"].units, rows["qos_levels"].alpha) == (2, 2, 1.0)
    assert rows["installation_easiness"].alpha < 1


def test_tables_4_to_8_of_paper_000_come_out_to_the_printed_percent_and_table_8_is_swapped(spark):
    """M-16."""
    frames = Frames(spark, MODEL)
    quality = quality_table(frames.answers(paper_answers(MODEL)))
    table = levels_table(quality, levels=frames.levels(), tallies=frames.tallies(paper_tallies(MODEL)))
    rows = table.collect()

    assertSchemaEqual(table.schema, LEVELS.columns)
    assert {row.table for row in rows} == {f"000/table{number}" for number in range(4, 9)}
    wrong = {(row.table, row.label): (row.percent, row.printed_for) for row in rows if not row.agrees}
    assert wrong == {("000/table8", "MQTT"): (67.0, "Two or More"), ("000/table8", "Two or More"): (33.0, "MQTT")}
