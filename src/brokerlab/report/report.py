"""Writes report.html: one file with style, charts and scripts inside, which asks no network for anything."""

import json
from collections.abc import Sequence
from pathlib import Path

import vl_convert
from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from brokerlab.record.directory import StudyDirectory
from brokerlab.report import (
    beside,
    border_brokers,
    border_parameters,
    capacity,
    ceilings,
    cloud,
    counters,
    crossing,
    faults,
    gateways,
    ledger,
    levels,
    losses,
    machine,
    networks,
    nodes,
    overview,
    paper_charts,
    paper_tables,
    placements,
    published,
    rhythm,
    traffic,
    validity,
    wills,
)
from brokerlab.report.answer import answer
from brokerlab.report.cells import Group, groups
from brokerlab.report.charts import Figure, figures, paper_figures
from brokerlab.report.drivers import KnownDriver
from brokerlab.report.numbers import brief
from brokerlab.report.results import Results, read_results

_FOLDER = Path(__file__).parent


def write_report(results: StudyDirectory, *, output: Path | None = None, drivers: Sequence[KnownDriver] = ()) -> Path:
    """Writes the report of these results, to <out>/report.html unless told otherwise; its path.

    Without drivers it does not say what they can do (001's Tables I and II).
    """
    return put_page(render(read_results(results), drivers), output or results.report)


def put_page(page: str, path: Path) -> Path:
    """Writes the page whole, or not at all; its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".part")
    beside.write_text(page, encoding="utf-8")
    beside.replace(path)
    return path


def render(results: Results, drivers: Sequence[KnownDriver] = ()) -> str:
    """The page as text."""
    compared = groups(results)
    drawn, alike = figures(results, compared), paper_figures(results, compared)
    beside_papers = paper_charts.published_figures(results, compared)
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html").render(
        study=results.study,
        figures=drawn,
        paper_figures=alike,
        published_figures=beside_papers,
        style=own_file("style.css"),
        scripts=page_scripts([*drawn, *alike, *beside_papers]),
        **_content(results, compared),
        border_features=border_brokers.features(results, drivers),
        border_probe_command=border_brokers.probe_command(results, drivers),
        border_images=border_brokers.images(results, drivers),
        border_parameters=border_parameters.parameters(results),
    )


def _content(results: Results, compared: list[Group]) -> dict[str, object]:
    """Everything that the page says, in its order."""
    return {
        "answer": answer(results, compared),
        "facts": overview.facts(results),
        "confidence": brief(results.confidence_percent),
        "overview": overview.overview(results, compared),
        "comparisons": levels.comparisons(results),
        "effects": levels.effects(results),
        "capacities": capacity.capacities(results, compared),
        "peaks": capacity.peaks(results, compared),
        "rhythm": rhythm.rhythm(results, compared),
        "beside": beside.beside(results.latency_beside),
        "topology": networks.topology(results),
        "links": networks.links(results),
        "overhead": networks.overhead(results, compared),
        "crossing": crossing.crossing(results.latency_by_way, results.delivery),
        "placements": placements.placements(results, compared),
        "bridge_legs": gateways.legs(results, compared),
        "bridge_printed": gateways.printed(results),
        "stops": gateways.stops(results),
        "stops_summary": gateways.stops_summary(results),
        "cloud": cloud.cloud(results, compared),
        "equations": paper_tables.equations(results, compared),
        "stress_tables": paper_tables.stress_tables(results.rankings),
        "stress_rankings": paper_tables.stress_rankings(results.rankings),
        "published": published.published_values(results.published, results.cells),
        "published_summary": published.published_summary(results.published),
        "behind": published.behind(results.published),
        "faults": faults.faults(results),
        "faults_summary": faults.summary(results),
        "losses": losses.losses(results, compared),
        "losses_summary": losses.losses_summary(results, compared),
        "nodes": nodes.nodes(results, compared),
        "held_back": nodes.held_back(results),
        "wills": wills.wills(results.sessions),
        "wills_summary": wills.wills_summary(results.sessions),
        "shared_groups": rhythm.shared_groups(results),
        "session_failures": rhythm.session_failures(results),
        "ledger": ledger.ledger(results, compared),
        "ledger_summary": ledger.ledger_summary(results),
        "counters": counters.counters(results, compared),
        "counters_summary": counters.summary(results),
        "counter_findings": counters.findings(results),
        "counters_differ": counters.differing_runs(results),
        "traffic": traffic.traffic(results),
        "traffic_summary": traffic.summary(results),
        "traffic_lacks": traffic.lacks(results),
        "legs": traffic.legs(results),
        "not_counted": validity.runs_not_counted(results),
        "counted": validity.runs_counted(results),
        "guards": validity.guards_text(results),
        "meter": validity.meter(results, compared),
        "ceilings": ceilings.ceilings(results),
        "ceilings_text": ceilings.ceilings_text(results),
        "threats": validity.threats(results, compared),
        "machine": machine.machine(results),
        "brokers": machine.brokers(results),
        "commands": machine.reproduce(results),
        "unreadable": results.unreadable,
    }


def page_scripts(drawn: list[Figure]) -> list[Markup]:
    """Vega with all it needs, and what draws the charts; nothing where there is nothing to draw."""
    if not drawn:
        return []
    specs = {figure.name: figure.spec for figure in drawn}
    return [
        _inside_script(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")),
        # A study may hold any text: no "<" of it may end the script that carries it.
        Markup("const chartSpecs = " + json.dumps(specs).replace("<", "\\u003c") + ";"),  # noqa: S704
        own_file("charts.js"),
    ]


def _inside_script(script: str) -> Markup:
    if "</script" in script.lower():
        raise ValueError("a script that holds </script cannot be put into a page")
    return Markup(script)  # noqa: S704 - the library's own text


def own_file(name: str) -> Markup:
    return Markup((_FOLDER / name).read_text(encoding="utf-8"))  # noqa: S704 - our own text
