"""What the clients beside the load saw: devices on the way there and back, and the latency probe.

Their raw files are kept apart from the load's (record/schemas.py), so nothing of theirs is counted as load.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from brokerlab.pipeline.manifests import RunFacts
from brokerlab.pipeline.reduce.expectation import places_of
from brokerlab.pipeline.reduce.latency import Tally, unknown_ns
from brokerlab.pipeline.reduce.publications import Publications, read_publications
from brokerlab.pipeline.reduce.raw import Bools, Longs, longs, longs_or_zero, read_files, resolutions

PROBE = "probe"  # the group of the probe's latencies
THERE, DEVICE = "there", "device"  # kinds of latency: until a device has a message, and how long it keeps it

_PROMISES = {1, 2}  # QoS at which an acknowledged message must come; a refusal is none of them

_HEARD = ("subscriber", "publisher", "seq", "intended_ns", "received_ns", "resolution_ns")
_ANSWERED = ("publisher", "seq", "intended_ns", "sent_ns")
Note = dict[str, str]  # a row of the family: its reason


def probe_tallies(run: RunFacts) -> tuple[dict[str, Tally], list[Note]]:
    """Latencies of the probe's messages that were intended in the measure phase, by kind; and what they leave out."""
    if run.probe is None:
        return {}, []
    published = read_publications(
        _files(run, "probe_publications"), publishers=[run.probe.publisher], measure=run.measure
    )
    heard = _table(run, "probe_deliveries", _HEARD)
    place, rows = _first_arrivals(heard, published)
    is_measured = published.is_measured[place]
    place, rows = place[is_measured], rows[is_measured]
    received, resolution = longs(heard, "received_ns")[rows], resolutions(heard)[rows]
    tallies = {"intended": Tally(), "sent": Tally()}
    tallies["intended"].add(received - published.intended_ns[place], resolution_ns=resolution)
    tallies["sent"].add(received - published.sent_ns[place], resolution_ns=resolution)
    probes, notes = int(np.count_nonzero(published.is_measured)), []
    if place.size < probes:
        missing = f"{probes - place.size} of {probes} probes did not come: its latencies are those of the others"
        notes.append({"reason": missing})
    return tallies, notes + _late_probes(published.sent_ns[place] - published.intended_ns[place], run.probe.late_ms)


def _late_probes(lag_ns: Longs, limit_ms: float | None) -> list[Note]:
    """Beside a load that takes every core a probe leaves late: its latency since it was due holds that."""
    late_ms = float(np.quantile(lag_ns, 0.99, method="higher")) / 1e6 if lag_ns.size else 0.0
    if limit_ms is None or late_ms <= limit_ms:
        return []
    said = (
        f"probes left up to {late_ms:.3g} ms (p99) after they were due, more than {limit_ms:g} ms: "
        "their latency since then holds that wait, the one since they left does not"
    )
    return [{"reason": said}]


def window_notes(run: RunFacts) -> list[Note]:
    """A window that waits sends nothing (load/window.py): such a run says less than the broker could carry."""
    if not run.written_off:
        return []
    said = (
        f"the window stood still, a second at a time, until it gave up {run.written_off} messages that were lost: "
        "the rate is no measure of the broker"
    )
    return [{"reason": said}]


def without_overheard(rows: pa.Table, run: RunFacts) -> pa.Table:
    """Deliveries of the load without probes at subscribers whose filter matches them too: they are none of the load."""
    if run.probe is None or not run.probe.overhearing:
        return rows
    is_probe = longs(rows, "publisher") == run.probe.publisher
    is_overheard = is_probe & np.isin(longs(rows, "subscriber"), run.probe.overhearing)
    return rows.filter(pa.array(~is_overheard))


def device_columns(run: RunFacts, published: Publications) -> dict[str, Any] | None:
    """The columns of families.ECHO, one row per publisher; None in a run without devices."""
    if not run.devices:
        return None
    heard, answered = _table(run, "device_deliveries", _HEARD), _table(run, "device_publications", _ANSWERED)
    place, _ = _first_arrivals(heard, published)
    owner = np.repeat(np.arange(published.publishers.size), published.reach)[place]
    _, is_sent = longs_or_zero(answered, "sent_ns")
    granted = {subscription.subscriber: subscription.granted_qos for subscription in run.subscriptions}
    numbers = published.publishers.tolist()
    return {
        "publisher": numbers,
        "qos_granted": [granted.get(number) for number in numbers],
        "heard": np.bincount(owner, minlength=len(numbers)),
        "missed": _missed(run, published, place),
        "answered": [int(np.count_nonzero(is_sent & (longs(answered, "publisher") == number))) for number in numbers],
    }


def _missed(run: RunFacts, published: Publications, place: Longs) -> list[int]:
    """By publisher; what its device was promised is a matter of its own QoS, whatever answers are sent with."""
    is_missed = published.is_acknowledged.copy()
    is_missed[place] = False
    missed = published.per_publisher(is_missed).tolist()
    is_promised = [{run.row["qos"], run.devices.get(number)} <= _PROMISES for number in published.publishers.tolist()]
    return [many if promised else 0 for many, promised in zip(missed, is_promised, strict=True)]


def device_tallies(run: RunFacts, published: Publications) -> dict[str, Tally]:
    """How long messages took to the devices, and how long these kept them, by kind; of the measure phase."""
    if not run.devices:
        return {}
    there, kept = Tally(), Tally(ends_with_arrival=False)
    heard = _table(run, "device_deliveries", _HEARD)
    place, rows = _first_arrivals(heard, published)
    if run.window is not None:
        is_known = _is_whole(heard, published, place)
        place, rows = place[is_known], rows[is_known]
    there_ns = longs(heard, "received_ns")[rows] - published.intended_ns[place]
    resolution = resolutions(heard)
    resolution[rows] = unknown_ns(resolution[rows], of=there_ns)
    is_measured = published.is_measured[place]
    there.add(there_ns[is_measured], resolution_ns=resolution[rows][is_measured])
    kept_ns, of_arrival = _kept_ns(heard, _table(run, "device_publications", _ANSWERED), published, resolution)
    kept.add(kept_ns, resolution_ns=of_arrival)
    return {THERE: there, DEVICE: kept}


def _is_whole(heard: pa.Table, published: Publications, place: Longs) -> Bools:
    """Which arrivals are of devices that had every message once: only these can be told apart where they look alike."""
    numbers = published.publishers.size
    sent = published.per_publisher(published.is_published)
    arrived = np.bincount(places_of(longs(heard, "publisher"), among=published.publishers) + 1, minlength=numbers + 1)
    owner = np.repeat(np.arange(numbers), published.reach)[place]
    first = np.bincount(owner, minlength=numbers)
    is_whole: Bools = ((first == sent) & (arrived[1:] == sent))[owner]
    return is_whole


def _kept_ns(heard: pa.Table, answered: pa.Table, published: Publications, resolution: Longs) -> tuple[Longs, Longs]:
    """From the arrival of a message of the measure phase at a device to its answer, and the arrival's resolution.

    A device answers in the order in which it hears: its answer k belongs to the k-th message that it heard.
    """
    place, device = _places(heard, published), longs(heard, "subscriber")
    owner, seq = longs(answered, "publisher"), longs(answered, "seq")
    received, (sent, is_sent) = longs(answered, "intended_ns"), longs_or_zero(answered, "sent_ns")
    found = [np.zeros((2, 0), dtype=np.int64)]
    for number in np.unique(owner):
        own = np.flatnonzero(owner == number)
        own = own[np.argsort(seq[own])]
        rows = np.flatnonzero(device == number)[: own.size]
        asked, own = place[rows], own[: rows.size]
        is_measured = (asked >= 0) & is_sent[own]
        is_measured[is_measured] = published.is_measured[asked[is_measured]]
        found.append(np.stack([(sent - received)[own[is_measured]], resolution[rows[is_measured]]]))
    kept_ns, of_arrival = np.concatenate(found, axis=1)
    return kept_ns, of_arrival


def _places(heard: pa.Table, published: Publications) -> Longs:
    """The place of each row's publication, -1 where there is none."""
    publisher, seq = longs(heard, "publisher"), longs(heard, "seq")
    if not published.publishers.size:
        return np.full(seq.size, -1, dtype=np.int64)
    number = np.minimum(np.searchsorted(published.publishers, publisher), published.publishers.size - 1)
    is_known = (published.publishers[number] == publisher) & (seq >= 0) & (seq < published.reach[number])
    place = np.where(is_known, published.base[number] + seq, -1)
    known = place[is_known]
    # The intended time is part of a message's identity, where it carries it: that of another run has another one.
    intended, carries_time = longs_or_zero(heard, "intended_ns")
    has_same_time = ~carries_time[is_known] | (intended[is_known] == published.intended_ns[known])
    place[is_known] = np.where(published.is_published[known] & has_same_time, known, -1)
    return place


def _first_arrivals(heard: pa.Table, published: Publications) -> tuple[Longs, Longs]:
    """The places of the publications that arrived, each once, and the rows of their first arrivals."""
    place = _places(heard, published)
    rows = np.flatnonzero(place >= 0)
    first, at = np.unique(place[rows], return_index=True)  # the first of equals: rows are in order of arrival
    return first, rows[at]


def _files(run: RunFacts, kind: str) -> Iterable[str]:
    return map(str, run.directory.files(kind))


def _table(run: RunFacts, kind: str, columns: Sequence[str]) -> pa.Table:
    tables = list(read_files(_files(run, kind), kind, columns))
    return pa.concat_tables(tables) if tables else pa.table({name: pa.array([], pa.int64()) for name in columns})
