"""Writes the report of a classification: one file, as that of a study with runs."""

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from brokerlab.published.library import paper, published
from brokerlab.record.directory import StudyDirectory
from brokerlab.report import quality_tables as tables
from brokerlab.report.numbers import plural
from brokerlab.report.quality_chart import score_figure
from brokerlab.report.quality_results import PAPER, QualityResults, read_quality
from brokerlab.report.report import own_file, page_scripts, put_page

_FOLDER = Path(__file__).parent


def write_quality_report(results: StudyDirectory, *, output: Path | None = None) -> Path:
    """Writes the report of these results, to <out>/report.html unless told otherwise; its path."""
    return put_page(render(read_quality(results)), output or results.report)


def render(results: QualityResults) -> str:
    """The page as text."""
    figures = [score_figure(results, name, name=f"scores{number}") for number, name in enumerate(results.sets)]
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("quality.html").render(
        study=results.study,
        style=own_file("style.css"),
        scripts=page_scripts(figures),
        lead=tables.lead(results),
        facts=_facts(results),
        sets=[_set(results, name, figure) for name, figure in zip(results.sets, figures, strict=True)],
        differences=tables.differences(results),
        mapping=tables.mapping(_features()),
        agreement=tables.agreement(results),
        claims=tables.claims(results),
        passes=tables.passes(results),
        steps=[(step["step"], step["title"], _told(step)) for step in results.steps()],
        has_paper=PAPER in results.sets,
        paper=paper("000"),
    )


def _set(results: QualityResults, name: str, figure: Any) -> dict[str, Any]:
    return {
        "name": name,
        "figure": figure,
        "ranking": tables.ranking(results, name),
        "weights": tables.weights(results, name),
        "shares": tables.shares(results, name),
        "groups": tables.groups(results, name),
        "sources": tables.sources(results, name),
    }


def _features() -> list[dict[str, str]]:
    """Table 2 of the paper, as its file has it."""
    return [
        {
            "title": row["feature"],
            "characteristic": row["iso25010_characteristic"],
            "subcharacteristic": row["iso25010_subcharacteristic"],
            "group": row["group"],
            "weight": row["weight_formula"],
            "formula": row["formula_source"],
        }
        for row in published("000/table2").rows
    ]


def _facts(results: QualityResults) -> list[tuple[str, str]]:
    judged = [row for row in results.quality if row["sheets"] != PAPER]
    measured = sum(row["measured"] is not None for row in judged)
    return [
        ("Sets", ", ".join(results.sets)),
        ("Brokers", plural(len(results.scores), "broker")),
        ("Features", plural(len(results.features), "feature")),
        (
            "Answers",
            f"{sum(row['answers'] for row in judged)} in sheets, {sum(row['unknown'] for row in judged)} unknown",
        ),
        ("Measured", f"{measured} of {len(judged)} broker and feature pairs"),
        ("Raters", str(max((row["raters"] for row in judged), default=0))),
        ("Passes", str(len(results.passes))),
        ("Last pass", results.passes[-1]["at"][:16].replace("T", " ") + " UTC" if results.passes else "-"),
    ]


def _told(step: dict[str, Any]) -> str:
    parts = []
    for key, value in step.items():
        if key in ("step", "title") or value in ("", [], {}):
            continue
        said = ", ".join(map(str, value)) if isinstance(value, list) else _pairs(value)
        parts.append(f"{key.replace('_', ' ')}: {said}")
    return "; ".join(parts)


def _pairs(value: Any) -> str:
    if not isinstance(value, dict):
        return str(value)
    return "; ".join(f"{key}: {_pairs(item) if isinstance(item, dict) else item}" for key, item in value.items())
