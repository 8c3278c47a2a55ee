"""The steps of a transformer (X-01): fields of JSON, CSV and JSON, a user's function, and what each refuses."""

import json

import pytest

from brokerlab.bridge.hands import Hand
from brokerlab.bridge.steps import (
    BadMessageError,
    Call,
    Conversion,
    Convert,
    CsvToJson,
    JsonToCsv,
    Message,
    Rename,
    Select,
    transformed,
)
from brokerlab.errors import RunError

pytestmark = pytest.mark.unit


def changed(payload, *steps):
    message = transformed(Message("t", payload if isinstance(payload, bytes) else json.dumps(payload).encode()), steps)
    return None if message is None else message.payload


def test_fields_are_selected_by_path_and_keep_their_place():
    assert json.loads(changed({"a": 1, "b": {"c": 2, "d": 3}}, Select(("b.c", "a")))) == {"a": 1, "b": {"c": 2}}


def test_fields_are_renamed_also_with_each_other():
    assert json.loads(changed({"a": 1, "b": 2, "c": {"d": 3}}, Rename({"a": "b", "b": "a", "c.d": "e"}))) == {
        "a": 2, "b": 1, "c": {}, "e": 3,
    }  # fmt: skip


def test_every_object_of_a_list_is_changed():
    assert json.loads(changed([{"a": 1}, {"a": 2}], Rename({"a": "b"}))) == [{"b": 1}, {"b": 2}]


@pytest.mark.parametrize(
    ("value", "conversion", "expected"),
    [
        ("36", Conversion("number", factor=0.5, offset=2), 20.0),
        (1.26, Conversion("number", digits=1), 1.3),
        ("2.6", Conversion("whole"), 3),
        (5, Conversion("text"), "5"),
        ("off", Conversion("truth"), False),
        (1, Conversion("truth"), True),
    ],
)
def test_values_are_converted(value, conversion, expected):
    assert json.loads(changed({"v": value}, Convert({"v": conversion}))) == {"v": expected}


def test_csv_becomes_json_and_back():
    rows = b"2024-01-01,7,3.5\n2024-01-02,8,4.5\n"
    columns = ("day", "bus", "speed")

    assert changed(rows, CsvToJson(columns, is_many=True), JsonToCsv(columns)) == rows
    assert json.loads(changed(b"a;b\n1;2\n", CsvToJson(separator=";"))) == {"a": "1", "b": "2"}
    assert changed({"a": "x,y", "b": True}, JsonToCsv(("b", "a"), has_header=True)) == b'b,a\ntrue,"x,y"\n'


@pytest.mark.parametrize(
    ("payload", "step", "reason"),
    [
        (b"{", Select(("a",)), "the payload is no JSON"),
        (b"3", Select(("a",)), "no JSON object: 3"),
        (b"{}", Select(("a.b",)), "the field a.b is missing"),
        (b'{"a": "x"}', Convert({"a": Conversion("number")}), "the field a is no number: x"),
        (b'{"a": 1e999}', Convert({"a": Conversion("number")}), "the field a is no number: inf"),
        (b'{"a": 1, "b": 2}', Rename({"a": "b.c"}), "the field b.c has no place"),
        (b"1,2", CsvToJson(("a",)), "a row has 2 fields, not 1"),
        (b"1\n2", CsvToJson(("a",)), "the payload has 2 rows, not one"),
        (b"\xff", CsvToJson(("a",)), "the payload is not UTF-8"),
        (b"", Call("m.f", lambda message: 1 / 0), "m.f raised ZeroDivisionError: division by zero"),
        (b"", Call("m.f", lambda message: 7), "m.f returned int, not a Message"),
    ],
)
def test_what_a_step_cannot_take_is_refused_with_the_reason(payload, step, reason):
    with pytest.raises(BadMessageError, match=reason.replace(".", r"\.")):
        changed(payload, step)


def test_a_function_may_give_text_bytes_a_message_or_nothing():
    results = [Call("m.f", lambda message, made=made: made)(Message("t", b"1")) for made in ("é", b"2", None)]

    assert [each and each.payload for each in results] == ["é".encode(), b"2", None]
    assert Call("m.f", lambda message: Message("u", "text"))(Message("t", b"1")) == Message("u", b"text")


def test_a_hand_works_in_a_process_of_its_own_and_its_end_is_told():
    """Messages of a hand that has ended were never acknowledged, so nothing is lost."""
    hand = Hand((Call("m.f", lambda message: message.payload if message.payload != b"end" else exit(3)),))
    try:
        hand.give([Message("t", b"1"), Message("t", b"2")])
        assert [each.payload for each in hand.take()] == [b"1", b"2"]
        hand.give([Message("t", b"end")])
        with pytest.raises(RunError, match="a transformer's process ended by itself, with 1"):
            hand.take()
    finally:
        hand.close()
