"""At least one message must be due while a run measures, and a storm come; a contact must be over by then."""

from collections.abc import Iterator

from brokerlab.study import quantity
from brokerlab.study.arrivals import due_by
from brokerlab.study.document import Document, KeyPath
from brokerlab.study.factors import read_burst, read_clients, read_rate_per_s
from brokerlab.study.life import read_behaviour, read_life_s
from brokerlab.study.lookup import WORKLOAD, arrivals_of, read_or_none, values_of
from brokerlab.study.payload_rules import replay_of
from brokerlab.study.readers import read_needed_phase_s, read_phase_s, read_store_s
from brokerlab.study.replay import records_of, shares_of
from brokerlab.study.values import Arrivals, Behaviour, Phases, Schedule

_SCHEDULE: KeyPath = (*WORKLOAD, "schedule")
_TIMED = (Arrivals.CONSTANT, Arrivals.POISSON, Arrivals.JITTER, Arrivals.BURST, Arrivals.RAMP, Arrivals.STEP)
_PHASES: KeyPath = ("deploy", "phases")


def check_load_is_measurable(document: Document) -> None:
    """Adds the problems that it finds to the document's."""
    measure_s, warmup_s = document.get(*_PHASES, "measure"), document.get(*_PHASES, "warmup")
    measure_s = Phases().measure_s if measure_s is None else read_or_none(read_needed_phase_s, measure_s)
    warmup_s = Phases().warmup_s if warmup_s is None else read_or_none(read_phase_s, warmup_s)
    arrivals = arrivals_of(document)
    if measure_s is None or warmup_s is None:
        return
    if arrivals is not Arrivals.SEARCH:  # whose trials have a length of their own
        _check_storms(document, warmup_s + measure_s)
    if arrivals is Arrivals.CONTACT:
        _check_contact(document, measure_s)
    elif arrivals in _TIMED:
        phases = Phases(warmup_s, measure_s)
        counts = [read_or_none(read_clients, written) for _, written in values_of(document, "publishers")]
        publishers = [count for count in counts if count is not None] or [1]
        if len(publishers) < len(counts):
            return
        schedules = list(_schedules(document, arrivals))
        for path, schedule in schedules:
            _check_messages_are_due(document, path, schedule, phases, min(publishers))
        _check_file_lasts(document, [schedule for _, schedule in schedules], phases, publishers)


def _check_storms(document: Document, within_s: float) -> None:
    """A cell of storms in which none comes would be measured as if there were one."""
    behaviours = [read_or_none(read_behaviour, written) for _, written in values_of(document, "behaviour")]
    for path, written in values_of(document, "every") if Behaviour.STORM in behaviours else ():
        every_s = read_or_none(read_life_s, written)
        if every_s is not None and every_s >= within_s:
            span = quantity.seconds_text(within_s)
            document.add(
                path,
                f"no storm comes in the {span} of deploy.phases.warmup and measure",
            )


def _schedules(document: Document, arrivals: Arrivals) -> Iterator[tuple[KeyPath, Schedule]]:
    """The schedules of the study's cells, each with its place; none where the model has something to say of them."""
    if arrivals is Arrivals.STEP:
        written = document.get(*_SCHEDULE, "rates")
        rates = [read_or_none(read_rate_per_s, each) for each in (written if isinstance(written, list) else ())]
        if rates and None not in rates:
            yield (*_SCHEDULE, "rates"), Schedule(arrivals, rates_per_s=tuple(rates))
        return
    to_per_s = read_or_none(read_rate_per_s, document.get(*_SCHEDULE, "to")) if arrivals is Arrivals.RAMP else 0.0
    burst = read_or_none(read_burst, document.get(*_SCHEDULE, "burst")) if arrivals is Arrivals.BURST else 1
    if to_per_s is None or burst is None:
        return
    for path, written in values_of(document, "rate") or [((*_SCHEDULE, "rate"), None)]:
        rate_per_s = Schedule().rate_per_s if written is None else read_or_none(read_rate_per_s, written)
        if rate_per_s is not None:
            yield path, Schedule(arrivals, rate_per_s, to_per_s=to_per_s, burst=burst)


def _check_messages_are_due(
    document: Document, path: KeyPath, schedule: Schedule, phases: Phases, publishers: int
) -> None:  # fmt: skip
    end_s = phases.warmup_s + phases.measure_s
    due = due_by(schedule, end_s, of_s=end_s) - due_by(schedule, phases.warmup_s, of_s=end_s)
    if due * publishers / schedule.burst < 1:
        span = quantity.seconds_text(phases.measure_s)
        what = "message" if schedule.burst == 1 else f"burst of {schedule.burst} messages"
        document.add(path, f"no {what} is due in the {span} of deploy.phases.measure; raise one of them")


def _check_file_lasts(document: Document, schedules: list[Schedule], phases: Phases, publishers: list[int]) -> None:
    """A file that is not repeated ends; where it does so in the warm-up, nothing is left to measure."""
    replay = replay_of(document)
    if replay is None or replay.repeat:
        return
    records = records_of(replay)
    end_s = phases.warmup_s + phases.measure_s
    for count in publishers:
        sizes = [own.size for own in shares_of(records, replay.split, publishers=count)]
        for schedule in schedules:
            last = max(_last_due(schedule, size, number / count) for number, size in enumerate(sizes))
            if last < due_by(schedule, phases.warmup_s, of_s=end_s):
                span = quantity.seconds_text(phases.warmup_s)
                rule = (
                    f"no record is left to measure: all {records.count} are due in the {span} of deploy.phases.warmup;"
                    " shorten that, send them more slowly, or add repeat: true"
                )
                document.add((*WORKLOAD, "payload", "file"), rule)
                return


def _last_due(schedule: Schedule, records: int, shift: float) -> float:
    """How many messages of a schedule are due until the last record is, for a publisher whose turn is so much later."""
    if schedule.arrivals in (Arrivals.POISSON, Arrivals.JITTER):
        return records  # on the average, and at the latest
    return ((records - 1) // schedule.burst + shift) * schedule.burst


def _check_contact(document: Document, measure_s: float) -> None:
    """The contact opens with the measure phase and must fit into it, with at least one message to send."""
    within_s = read_or_none(read_needed_phase_s, document.get(*_SCHEDULE, "within"))
    store_s = read_or_none(read_store_s, document.get(*_SCHEDULE, "store"))
    if within_s is not None and within_s > measure_s:
        span = quantity.seconds_text(measure_s)
        document.add((*_SCHEDULE, "within"), f"is longer than the {span} of deploy.phases.measure; raise that")
    for path, written in values_of(document, "rate"):
        rate_per_s = read_or_none(read_rate_per_s, written)
        if store_s is None or rate_per_s is None:
            continue
        if round(rate_per_s * store_s) < 1:
            document.add(path, f"no message is collected in {quantity.seconds_text(store_s)}; raise one of them")
