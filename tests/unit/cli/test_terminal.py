import pytest

from brokerlab.cli.terminal import Columns, fitting_parts, plain_lines

pytestmark = pytest.mark.unit

COLUMNS = Columns(("broker", "p99 ms", "runs"), right=frozenset({"p99 ms"}))
ROWS = [("amqtt", "1.25", "3/3"), ("mosquitto", "10.5", "2/3")]


def test_plain_lines_align_numbers_to_the_right() -> None:
    assert plain_lines(COLUMNS, ROWS) == [
        "broker     p99 ms  runs",
        "amqtt        1.25  3/3",
        "mosquitto    10.5  2/3",
    ]


def test_an_empty_table_is_its_headings() -> None:
    assert plain_lines(COLUMNS, []) == ["broker  p99 ms  runs"]


def test_a_wide_table_is_cut_between_columns_and_repeats_the_first() -> None:
    parts = list(fitting_parts(COLUMNS, ROWS, width=22))

    assert [part.headings for part, _ in parts] == [("broker", "p99 ms"), ("broker", "runs")]
    assert parts[1][1] == [["amqtt", "3/3"], ["mosquitto", "2/3"]]


def test_a_narrow_table_stays_whole() -> None:
    assert len(list(fitting_parts(COLUMNS, ROWS, width=80))) == 1


def test_columns_wider_than_the_terminal_still_come_out() -> None:
    assert [len(part.headings) for part, _ in fitting_parts(COLUMNS, ROWS, width=3)] == [2, 2]
