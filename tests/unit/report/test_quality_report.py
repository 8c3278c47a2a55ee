"""The page of a classification (M-12, M-16, M-18)."""

import re

import pytest

from brokerlab.report.quality_chart import score_bars
from brokerlab.report.quality_report import render
from brokerlab.report.quality_results import PAPER, QualityResults
from brokerlab.report.results import StudyText

STUDY = StudyText("classification", "Which <one>?", "score", "7", "loopback", "")


def feature(sheets, broker, name, low, high, **others):
    row = {
        "sheets": sheets, "broker": broker, "version": "1", "feature": name, "feature_group": "technical", "roof": 2,
        "raters": 1, "rounds": 1, "answers": 1, "unknown": 0, "sheet_low": 2.0, "sheet_high": 2.0, "measured": None,
        "differs": None, "level_low": 2.0, "level_high": 2.0, "weight_low": low, "weight_high": high,
        "facts": ["mqtt"], "measured_facts": [], "sources": ["a page"], "because": [],
    }  # fmt: skip
    return {**row, **others}


def score(sheets, broker, low, high, rank, *, selected=False):
    return {
        "sheets": sheets, "broker": broker, "version": "1", "score_low": low, "score_high": high,
        "score": (low + high) / 2, "most": 2, "unknown": int(low < high), "rank": rank, "rank_best": 1, "rank_worst": 2,
        "selected": selected, "selection_is_certain": False,
    }  # fmt: skip


def level(label, percent, printed, printed_for=None):
    return {
        "sheets": PAPER, "feature": "protocols", "level": 1, "label": label, "brokers": 4, "percent": percent,
        "table": "000/table8", "printed_percent": printed, "agrees": percent == printed, "printed_for": printed_for,
    }  # fmt: skip


@pytest.fixture
def results():
    audits = [
        {"at": "2026-01-01T00:00:00+00:00", "by": "a reviewer", "satisfactory": False, "back_to": 3, "reasons": ["why"]}
    ]
    measured = feature("today", "a", "qos", 1.0, 1.0, measured=2.0, differs=True, sheet_low=1.0, sheet_high=1.0)
    return QualityResults(
        study=STUDY,
        quality=(
            measured,
            feature("today", "a", "protocols", 1.0, 1.0),
            feature("today", "b", "qos", 0.5, 0.5),
            feature("today", "b", "protocols", 0.0, 1.0, level_low=None, level_high=None),
            feature(PAPER, "Mosquitto", "qos", 1.0, 1.0),
            feature(PAPER, "Mosquitto", "protocols", 0.5, 0.5),
        ),
        scores=(
            score(PAPER, "Mosquitto", 1.5, 1.5, 1, selected=True),
            score("today", "a", 2.0, 2.0, 1, selected=True),
            score("today", "b", 0.5, 1.5, 2),
        ),
        groups=({"sheets": "today", "group": "multi_protocol", "broker": "b", "member": None},),
        levels=(level("MQTT", 67.0, 33.0, "Two or More"), level("Two or More", 33.0, 67.0, "MQTT")),
        agreement=(),
        claims=(),
        passes=({"pass": 1, "at": "2026-01-01T00:00:00+00:00", "steps": [], "audits": audits},),
    )


def test_bars_are_the_weights_one_after_the_other_and_then_the_doubt(results):
    bars = [(bar["part"], bar["begin"], bar["end"]) for bar in score_bars(results, "today") if bar["broker"] == "b"]

    assert bars == [("qos", 0.0, 0.5), ("protocols", 0.5, 0.5), ("in doubt", 0.5, 1.5)]


def test_the_page_says_who_comes_first_what_was_measured_and_what_is_swapped(results):
    page = render(results)
    text = " ".join(re.sub(r"<script.*?</script>|<[^>]+>", " ", page, flags=re.S).split())

    assert "Of 2 brokers, a (2.00) comes first, of 2 possible." in text
    assert "printed for “Two or More”: the rows are swapped" in text
    assert "0.50 to 1.50" in text
    assert "back to step 3" in text
    assert "Which &lt;one&gt;?" in page
    outside = re.sub(r"<script>.*?</script>", "", page, flags=re.S)
    assert not re.search(r"<(?:script|img|link)[^>]+(?:src|href)=", outside)  # asks no network for anything


def test_of_todays_brokers_the_page_tells_first(results):
    assert results.sets == ["today", PAPER]
