"""The answer to the study's question, in sentences: who is best where, and who cannot be told apart from it.

Two brokers count as told apart when table comparisons says so: by Welch's test, corrected for the number of pairs,
and by more than the noise floor where the study has the same broker under two names. A single run tells nothing.
"""

from dataclasses import dataclass

from brokerlab.report.cells import CellResult, Group, is_within_resolution
from brokerlab.report.contract import contract_of
from brokerlab.report.metrics import METRICS, Metric
from brokerlab.report.numbers import brief, listed, plural, significant
from brokerlab.report.results import Results

_NAMED_PLACES = 6  # as many groups are named in the lead; more are counted
_NAMED_TIES = 3  # so many different ties are spelled out in the lead; more are counted


@dataclass(frozen=True, slots=True)
class Standing:
    """Who is best in one group."""

    label: str
    best: CellResult
    ties: tuple[CellResult, ...]
    rivals: int  # other brokers with a valid run
    unmeasured: tuple[str, ...]  # brokers without a valid run
    within_floor: tuple[str, ...] = ()  # of the ties: no further from the best than an A/A pair is from itself
    within_resolution: tuple[str, ...] = ()  # of the ties: nearer to the best than times of arrival can show

    @property
    def place(self) -> str:
        return f" at {self.label}" if self.label else ""


@dataclass(frozen=True, slots=True)
class Point:
    """One line of the answer: a group, its best broker, and what there is to say about it."""

    label: str
    broker: str
    value: str
    remarks: tuple[str, ...]
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    lead: str
    points: tuple[Point, ...] = ()
    notes: tuple[str, ...] = ()
    floor: str = ""  # what two names of the same broker lie apart


def answer(results: Results, compared: list[Group]) -> Answer:
    """The answer by the study's own metric; says so where there is none."""
    notes = _run_notes(results)
    metric = METRICS.get(results.study.rank_by)
    if not results.valid_runs:
        total = len(results.runs)
        why = {0: "no run has been made", 1: "the only run is not valid"}.get(
            total, f"none of the {total} runs is valid"
        )
        return Answer(f"No answer: {why}.", notes=notes)
    if metric is None:
        return Answer(f"No answer: the report cannot rank by {results.study.rank_by}.", notes=notes)
    found = [standing for group in compared if (standing := _standing(group, metric.name))]
    if not found:
        return Answer(f"No answer: the valid runs hold no {metric.label}.", notes=notes)
    points = tuple(_point(standing, metric, results) for standing in found)
    return Answer(_lead(found, metric), points, notes, _floor(compared, metric))


def _floor(compared: list[Group], metric: Metric) -> str:
    """F-21: two names of one broker show how much of a difference is noise."""
    pairs = [(group.label, pair) for group in compared if (pair := group.floor(metric.name))]
    if not pairs:
        return ""
    names = listed(sorted({name for _, pair in pairs for name in (pair["level_a"], pair["level_b"])}))
    amounts = [
        f"{significant(pair['floor'])} {pair['unit'] or ''}".rstrip() + (f" at {label}" if label else "")
        for label, pair in pairs
    ]
    return (
        f"Noise floor: {names} are the same broker under several names, and chance alone puts their {metric.label} "
        f"up to {listed(amounts)} apart; smaller differences are ties."
    )


def _standing(group: Group, metric: str) -> Standing | None:
    found = group.best_and_ties(metric)
    if found is None:
        return None
    best, ties = found
    measured = [cell for cell in group.cells if metric in cell.estimates]
    missing = tuple(cell.broker for cell in group.cells if metric not in cell.estimates)
    compared = [(tie.broker, group.comparison(metric, best.broker, tie.broker)) for tie in ties]
    within = tuple(broker for broker, row in compared if row is not None and row["is_tie"])
    too_near = tuple(broker for broker, row in compared if row is not None and is_within_resolution(row))
    return Standing(group.label, best, tuple(ties), len(measured) - 1, missing, within, too_near)


def _lead(found: list[Standing], metric: Metric) -> str:
    contested = [standing for standing in found if standing.rivals]
    if not contested:
        names = listed(sorted({standing.best.broker for standing in found}))
        if any(standing.unmeasured for standing in found) or len(found) == 1:
            return f"Only {names} gave valid results, so there is nothing to rank against."
        return _range(found, metric)
    if all(standing.best.estimates[metric.name].low is None for standing in contested):
        leaders = _clear_clause(contested, metric)
        return f"{leaders}, but one valid run per broker gives no interval: nothing is told apart."
    clear = [standing for standing in contested if not standing.ties]
    shared = [standing for standing in contested if standing.ties]
    sentences = [f"{_clear_clause(clear, metric)}, told apart from every other broker."] if clear else []
    return " ".join(sentences + _shared_sentences(shared, contested, metric))


def _range(found: list[Standing], metric: Metric) -> str:
    """Of a study with one broker: where its value is lowest, and where highest."""
    in_order = sorted(found, key=lambda standing: standing.best.estimates[metric.name].mean)
    (low, low_at), (high, high_at) = (
        (standing.best.estimates[metric.name], standing.label) for standing in (in_order[0], in_order[-1])
    )
    broker, unit = found[0].best.broker, low.unit or ""
    return (
        f"The {metric.label} of {broker}, the only broker, is from {low.mean_text} {unit} ({low_at}) "
        f"to {high.mean_text} {unit} ({high_at})."
    )


def _clear_clause(clear: list[Standing], metric: Metric) -> str:
    """`a had the lowest p99 latency at QoS 0 and QoS 1, b at QoS 2`; `in 5 of 8 cases` where they are many."""
    places: dict[str, list[str]] = {}
    for standing in clear:
        places.setdefault(standing.best.broker, []).append(standing.label)
    is_counted = len(clear) > _NAMED_PLACES
    clauses: list[str] = []
    for broker in sorted(places, key=lambda name: -len(places[name])) if is_counted else places:
        verb, of = ("", "") if clauses else (f" had the {metric.superlative} {metric.label}", f" of {len(clear)} cases")
        labels = places[broker]
        where = f" in {len(labels)}{of}" if is_counted else f" at {_labels(labels)}" if any(labels) else ""
        clauses.append(f"{broker}{verb}{where}")
    return ", ".join(clauses)


def _labels(labels: list[str]) -> str:
    if len(labels) > 1 and all(label.startswith("QoS ") and "," not in label for label in labels):
        return "QoS " + listed([label.removeprefix("QoS ") for label in labels])
    return listed(labels)


def _shared_sentences(shared: list[Standing], contested: list[Standing], metric: Metric) -> list[str]:
    """One sentence for all groups with the same best and the same names behind it; a count where these are many."""
    alike: dict[tuple[str, ...], list[Standing]] = {}
    for standing in shared:
        names = sorted(cell.broker for cell in standing.ties)
        alike.setdefault((standing.best.broker, _these_runs(standing, metric), *names), []).append(standing)
    if len(alike) > _NAMED_TIES:
        of = "all" if len(shared) == len(contested) else f"{len(shared)} of"
        return [f"In {of} {len(contested)} cases the best is not told apart from at least one other broker."]
    return [_shared_sentence(standings, metric) for standings in alike.values()]


def _shared_sentence(standings: list[Standing], metric: Metric) -> str:
    labels = [standing.label for standing in standings]
    first = standings[0]
    place = f"At {_labels(labels)}, " if any(labels) else ""
    names = "any other broker" if len(first.ties) == first.rivals > 1 else _names(first.ties)
    return (
        f"{place}{first.best.broker} had the {metric.superlative} {metric.label}, "
        f"not told apart from {names} by {_these_runs(first, metric)}{_too_near(standings)}."
    )


def _too_near(standings: list[Standing]) -> str:
    """Who could not have been told apart by any number of runs, where arrival times are so coarse."""
    names = sorted({name for standing in standings for name in standing.within_resolution})
    return f"; {listed(names)} {'is' if len(names) == 1 else 'are'} within the resolution" if names else ""


def _names(cells: tuple[CellResult, ...]) -> str:
    return listed([cell.broker for cell in cells])


def _these_runs(standing: Standing, metric: Metric) -> str:
    counts = sorted({cell.estimates[metric.name].n for cell in (standing.best, *standing.ties)})
    if counts == [1]:
        return "one run each"
    return f"these {counts[0]} runs each" if len(counts) == 1 else f"these {counts[0]} or {counts[-1]} runs each"


def _point(standing: Standing, metric: Metric, results: Results) -> Point:
    estimate = standing.best.estimates[metric.name]
    value = f"{metric.label} {estimate.mean_text} {estimate.unit}".rstrip()
    if estimate.low is not None:
        confidence = brief(results.confidence_percent)
        value += f" ({confidence} % interval {estimate.interval_text} {estimate.unit}".rstrip() + ")"
    remarks = [_ties_remark(standing, metric)] if standing.rivals else []
    if standing.within_floor:
        remarks.append(f"within the noise floor: {listed(list(standing.within_floor))}")
    if standing.within_resolution:
        remarks.append(f"nearer than times of arrival are known: {listed(list(standing.within_resolution))}")
    if standing.unmeasured:
        remarks.append(f"without a valid result: {listed(list(standing.unmeasured))}")
    leaders = (standing.best, *standing.ties)
    warnings = tuple(f"{cell.broker} {said}" for cell in leaders for said in _contract_warnings(cell, results))
    return Point(standing.label, standing.best.broker, value, tuple(remarks), warnings)


def _ties_remark(standing: Standing, metric: Metric) -> str:
    if not standing.ties:
        return "told apart from every other broker"
    return f"not told apart by {_these_runs(standing, metric)}: {_names(standing.ties)}"


def _contract_warnings(cell: CellResult, results: Results) -> list[str]:
    """The fastest is no winner if it lost what it acknowledged: the warning stands beside the name."""
    contract = contract_of(cell, results)
    warnings = []
    if contract.verdict == "broken":
        warnings.append(f"broke «{contract.name}» in {contract.runs} of {plural(contract.of_runs, 'run')}")
    if contract.verdict == "unknown":
        why = f": {listed(list(contract.doubts))}" if contract.doubts else ""
        warnings.append(f"«{contract.name}» unproven in {contract.runs} of {plural(contract.of_runs, 'run')}{why}")
    if contract.was_granted_less:
        warnings.append(f"granted QoS {contract.granted_qos} where QoS {contract.asked_qos} was asked")
    lost = cell.estimates.get("delivery.failure_percent")
    if lost is not None and lost.mean > 0:
        warnings.append(f"lost {significant(lost.mean)} % of its messages, which have no latency")
    is_search = any(run["arrivals"] == "search" for run in cell.runs)
    return [f"{warning}, counting the trials beyond its capacity" for warning in warnings] if is_search else warnings


def _run_notes(results: Results) -> tuple[str, ...]:
    notes = _missing_notes(results)
    for verdict in ("invalid", "collapsed"):
        number = sum(row["verdict"] == verdict for row in results.runs)
        if number:
            verb = "is" if number == 1 else "are"
            what = f"{number} of {plural(len(results.runs), 'run')} {verb} {verdict}"
            notes.append(f"{what} and left out of every mean; the reasons stand under «Validity of every run».")
    return tuple(notes)


def _missing_notes(results: Results) -> list[str]:
    notes = []
    if results.left_out:
        notes.append(f"Left out, because not on this machine: {listed(list(results.left_out))}.")
    notes.extend(f"Left out of some cells: {broker}, because {why}." for broker, why in results.unable)
    missing = len(results.planned - {row["run_id"] for row in results.runs})
    if missing:
        notes.append(f"{missing} of {plural(len(results.planned), 'planned run')} left no results.")
    return notes
