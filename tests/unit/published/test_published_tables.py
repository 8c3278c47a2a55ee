"""The papers' tables as files, their names, notes and values (F-24, S-11)."""

import pytest

from brokerlab.errors import UserError
from brokerlab.published.claims import read_claims
from brokerlab.published.library import paper, papers, published, published_names, tables_of
from brokerlab.published.values import broker_name, published_values, values_of


def test_every_paper_has_tables_an_environment_and_threats():
    assert [each.id for each in papers()] == ["000", "001", "002", "003", "004"]
    assert all(tables_of(each.id) and each.environment and each.threats for each in papers())


def test_tables_are_listed_by_number():
    names = [name for name in published_names() if name.startswith("002/")]

    assert names == [f"002/table{number}" for number in range(4, 12)]


def test_suspect_values_stand_as_printed_with_a_note():
    (row,) = published("003/table3").where(
        broker="broker.hivemq.org", qos="2", interval_ms="100", metric="latency_mean"
    )

    assert row["value"] == "1067.5"
    assert "10675" in row["note"]


def test_notes_beside_the_files_reach_their_rows_only():
    noted = [row for row in published("002/table8").rows if row["note"]]

    assert {(row["broker"], row["qos"]) for row in noted} == {("HiveMQ CE", "1"), ("HiveMQ CE", "2")}


def test_figures_of_one_file_are_tables_of_their_own():
    assert [row["payload_kb"] for row in published("004/fig8").rows] == ["35"] * 3


def test_the_36_projected_rates_of_002_come_out_of_its_own_columns():
    """S-11: 100 times the peak rate over the mean CPU, to two decimals."""
    values = [each for name in (6, 7, 8, 9) for each in values_of(f"002/table{name}")]
    cells = {(each.source, each.broker, each.qos): {} for each in values}
    for each in values:
        cells[each.source, each.broker, each.qos][each.metric] = each.value

    assert len(cells) == 36
    for cell in cells.values():
        projected = 100 * cell["peak_message_rate"] / cell["average_cpu_usage"]
        assert round(projected, 2) == pytest.approx(cell["projected_message_rate"], abs=0.0051)


def test_bounds_keep_their_sign_and_words_have_no_value():
    rows = {(each.broker, each.metric, each.bound): each.value for each in published_values()}

    assert rows["mosquitto", "undelivered_messages", ">"] == 250_000
    assert rows["MQTT-ST", "e2e_delay_rank_locality0", ""] is None


def test_a_broker_has_one_name_in_all_papers():
    assert {broker_name(name) for name in ("Emqttd", "EMQ X", "EMQX")} == {"emqx"}
    assert broker_name("test.mosquitto.org") == "test.mosquitto.org"


@pytest.mark.parametrize(
    ("ask", "message", "hint"),
    [
        (lambda: paper("0002"), "no paper is called '0002'", "did you mean 002?"),
        (lambda: published("002/tabel6"), "no published table is called '002/tabel6'", "did you mean 002/table6?"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest(ask, message, hint):
    with pytest.raises(UserError, match=message) as refused:
        ask()

    assert hint in refused.value.hint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1", "a file of claims is a list"),
        ("- {id: x}", "claim 1: needs id, section, text and rule"),
        ("- {id: x, section: '1', text: t, rule: {kind: ordre}}", "claim x: no rule is called 'ordre'"),
        ("- {id: x, section: '1', text: t, rule: {kind: member, broker: b}}", "the rule member lacks group and is"),
        (
            "- {id: x, section: '1', text: t, rule: {kind: member, broker: b, group: g, is: true, wich: 1}}",
            "has no key wich",
        ),
        (
            "- {id: x, section: '1', text: t, rule: {kind: order, source: [a], metric: m, lowest: true, each: []}}",
            "needs one of first, last and order",
        ),
        (
            "- {id: x, section: '1', text: t, rule: {kind: limit, source: [a], metric: m, each: []}}",
            "the rule limit needs at_least or at_most",
        ),
        (
            "- {id: x, section: '1', text: t, rule: {kind: change, source: [a], metric: m, from: a, to: b}}",
            "the rule change needs lowest, or at_least or at_most of the ratio",
        ),
        (
            "- {id: x, section: '1', text: t,"
            " rule: {kind: limit, source: [a], metric: m, each: [], at_most: 1, where: qos}}",
            "where is a mapping",
        ),
        ("- {id: [", "the claims cannot be read"),
    ],
)
def test_a_file_of_claims_that_is_wrong_is_refused(tmp_path, text, message):
    (tmp_path / "claims.yaml").write_text(text)

    with pytest.raises(UserError, match=message):
        read_claims(tmp_path / "claims.yaml")
