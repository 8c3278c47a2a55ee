"""Messages over bridges, leg by leg, and where the bytes of connections closed at once stopped (X-11, X-13)."""

from types import SimpleNamespace

from brokerlab.report.cells import CellResult, Group
from brokerlab.report.gateways import legs, printed, stops, stops_summary

CLOSES = [
    {"publisher": 0, "closes": 10, "whole": 1, "left_bytes_min": 0, "left_bytes_median": 90_000.0,
     "left_bytes_max": 118_448},
    {"publisher": 1, "closes": 10, "whole": 10, "left_bytes_min": 0, "left_bytes_median": 0.0, "left_bytes_max": 0},
]  # fmt: skip
UP = {"to": 0, "received": 11, "published": 12, "dead": 1, "resent": 0}
MANIFEST = {
    "workload": {"payload": {"each": [125_528, 1_517]}, "payload_bytes": 64},
    "meter": {"closes": CLOSES},
    "payloads": {"received": 10, "received_bytes": 5_180},
    "bridging": [UP, {"to": 1, "received": 99, "published": 99, "dead": 0, "resent": 0}],
}
RESULTS = SimpleNamespace(
    runs=[{"run_id": "c/1", "levels": {}}],
    manifests={"c/1": MANIFEST, "d/1": {"meter": {"closes": []}}},
    delivery=[{"cell": "c", "run_id": "c/1", "published": 20, "delivered": 10, "duplicated": 0}],
    jitter=[
        {"run_id": "c/1", "publisher": 0, "lost": 9},
        {"run_id": "c/1", "publisher": 1, "lost": 0},
        {"run_id": "d/1", "publisher": 0, "lost": 0},
    ],
)
CELL = CellResult("c", "mosquitto", 0, (), ({"run_id": "c/1"},))


def texts(table):
    return [[entry.text for entry in row] for block in table.blocks for row in block]


def test_a_message_is_lost_on_one_of_three_legs():
    (row,) = texts(legs(RESULTS, [Group((), (CELL,))]))

    assert row == ["mosquitto", "20", "11", "11", "10", "9", "0", "1", "0", "518"]


def test_bytes_that_stopped_stand_beside_what_was_lost():
    large, small = texts(stops(RESULTS))

    assert large[1:] == ["0", "125,528", "10", "1", "0", "90,000", "118,448", "9"]
    assert small[1:] == ["1", "1,517", "10", "10", "0", "0", "0", "0"]


def test_the_summary_says_who_dropped_them():
    said = stops_summary(RESULTS)

    assert "20 connections were closed at once" in said
    assert "when 9 of them" in said
    assert "Of 11 that bridges took from the brokers 10 were received: the others were lost behind a broker." in said
    assert "9 messages were lost in these runs, and 0 in the runs whose gateways waited" in said


def test_table_iv_stands_as_it_is_printed():
    """X-14: deployments and QoS of the paper."""
    values = (("latency_mean", "132.3"), ("received_messages_end_to_end", "2004"))
    rows = [
        {"source": "004/table4", "variant": "AUT 1, 15", "qos": "0", "metric": metric, "printed": value}
        for metric, value in values
    ]

    (row,) = texts(printed(SimpleNamespace(published=rows)))

    assert row == ["AUT 1, 15 B", "0", "132.3", "–", "–", "–", "2004", "–"]
