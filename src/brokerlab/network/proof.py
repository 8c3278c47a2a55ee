"""Every link of a network against its claim, before any message of the study is sent (design section 5.5, B-07).

    rtt    within 5 % or 0.3 ms, whichever is more, beside the time that the probe itself takes at the rate
    rate   within 5 %
    loss   within the binomial interval of the claimed share (99.9 %) for so many probes
    pairs  everybody who is to talk to somebody hears an echo from there

A link that fails is measured once more, because a machine may stumble; what it gives then counts.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from brokerlab.errors import RunError
from brokerlab.network.carrier import LATE_MS, LATE_SHARE
from brokerlab.network.layout import BROKER, CLIENTS, Cable, End, Layout
from brokerlab.network.probing import LARGE_BYTES, SMALL_BYTES, Echo, Train, run_echoes, run_trains
from brokerlab.stats.binomial import expected_range
from brokerlab.study.topology import Direction, Link

RTT_SHARE, RTT_MS, RATE_SHARE, CONFIDENCE = LATE_SHARE, LATE_MS, 0.05, 0.999
_ECHOES, _ECHO_INTERVAL_S = 100, 0.006
_PROBES, _PROBES_OF_LOSS, _PROBE_INTERVAL_S = 200, 1000, 0.001
_SHARE_FOR_PROBES = 0.25  # of a link's rate, so that they do not wait for each other
_LONGEST_TRAIN_S = 2.0
_RATE_S, _LEAST_RATE_FRAMES, _MOST_RATE_S = 0.3, 100, 1.5
_OVERLOAD = 1.25  # what a rate is measured with
_TOGETHER_BITS_PER_S = 260e6  # rates that are measured at once: the carrier is one process
_TRIES = 5


@dataclass(frozen=True, slots=True)
class Measured:
    """One direction of a link: what it claims and what was measured; None where nothing is claimed or came back."""

    link: str  # such as router1>router2
    cable: str
    kind: str  # veth, netem or userspace
    claimed_rtt_ms: float
    measured_rtt_ms: float | None
    claimed_delay_ms: float
    measured_delay_ms: float | None
    claimed_rate_bits_per_s: float | None
    measured_rate_bits_per_s: float | None
    claimed_loss_percent: float
    measured_loss_percent: float | None
    probes: int
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PairEcho:
    """The round trip between two hosts that will talk to each other."""

    first: str
    second: str
    rtt_ms: float


def measure(layout: Layout, kinds: dict[str, str]) -> list[Measured]:
    """Two rows for each cable; problems say what is not as claimed."""
    rows = _measure(layout, layout.cables, kinds)
    failed = {row.cable for row in rows if row.problems}
    if failed:
        again = _measure(layout, [each for each in layout.cables if each.name in failed], kinds)
        rows = [row for row in rows if row.cable not in failed] + again
    return rows


def echo_pairs(layout: Layout) -> list[PairEcho]:
    """Brokers and clients, each to each; an unhealthy network is refused."""
    hosts = [*layout.of_kind(BROKER), *layout.of_kind(CLIENTS)]
    pairs = list(combinations(hosts, 2))
    echoes = [Echo(first.namespace, second.address) for first, second in pairs]
    longest_s = sum(cable.link.rtt_ms for cable in layout.cables) / 1000
    for _ in range(_TRIES):
        silent = [each for each in echoes if not each.rtts_ms]
        if silent:
            run_echoes(silent, count=5, interval_s=0.01, patience_s=longest_s + 0.5)
    deaf = [
        f"{first.name} and {second.name}"
        for (first, second), each in zip(pairs, echoes, strict=True)
        if not each.rtts_ms
    ]
    if deaf:
        raise RunError(f"the network is not healthy: no echo between {'; '.join(deaf)}")
    return [
        PairEcho(first.name, second.name, each.median_ms or 0.0)
        for (first, second), each in zip(pairs, echoes, strict=True)
    ]


def _measure(layout: Layout, cables: Sequence[Cable], kinds: dict[str, str]) -> list[Measured]:
    echoes = {cable.name: Echo(_namespace(layout, cable.first), cable.second.address) for cable in cables}
    patience_s = max((cable.link.rtt_ms for cable in cables), default=0.0) / 1000 * 1.5 + 0.3
    run_echoes(list(echoes.values()), count=_ECHOES, interval_s=_ECHO_INTERVAL_S, patience_s=patience_s)
    trains: dict[str, Train] = {}
    rates: dict[str, Train] = {}
    for cable in (each for each in cables if not each.link.is_plain):
        for name, source, target, direction in _directions(cable):
            ends = (_namespace(layout, source), _namespace(layout, target), target.address)
            trains[name] = _loss_train(*ends, direction)
            if direction.rate_bits_per_s is not None:
                rates[name] = _rate_train(*ends, direction.rate_bits_per_s)
    run_trains(list(trains.values()), patience_s=patience_s)
    for together in _groups(rates.values()):
        run_trains(together, patience_s=patience_s)
    return [
        _row(cable, kinds[cable.name], name, direction, echoes[cable.name], trains.get(name), rates.get(name))
        for cable in cables
        for name, _, _, direction in _directions(cable)
    ]


def _directions(cable: Cable) -> list[tuple[str, End, End, Direction]]:
    first, second = cable.first, cable.second
    return [
        (f"{first.host}>{second.host}", first, second, cable.link.there),
        (f"{second.host}>{first.host}", second, first, cable.link.back),
    ]


def _namespace(layout: Layout, end: End) -> str:
    return layout.host(end.host).namespace


def _loss_train(source: str, target: str, address: str, direction: Direction) -> Train:
    interval_s = _PROBE_INTERVAL_S
    if direction.rate_bits_per_s is not None:
        interval_s = max(interval_s, SMALL_BYTES * 8 / direction.rate_bits_per_s / _SHARE_FOR_PROBES)
    wanted = _PROBES_OF_LOSS if direction.loss_percent else _PROBES
    count = max(10, min(wanted, int(_LONGEST_TRAIN_S / interval_s)))
    return Train(source, target, address, count, interval_s)


def _rate_train(source: str, target: str, address: str, rate_bits_per_s: float) -> Train:
    interval_s = LARGE_BYTES * 8 / rate_bits_per_s / _OVERLOAD
    duration_s = min(_MOST_RATE_S, max(_RATE_S, _LEAST_RATE_FRAMES * interval_s))
    return Train(source, target, address, max(15, int(duration_s / interval_s)), interval_s, LARGE_BYTES)


def _groups(trains: Iterable[Train]) -> list[list[Train]]:
    """Trains that together ask no more of the carrier than it can do while it is timed."""
    groups: list[list[Train]] = []
    room = 0.0
    for train in trains:
        asked = train.frame_bytes * 8 / train.interval_s
        if not groups or asked > room:
            groups.append([])
            room = _TOGETHER_BITS_PER_S
        groups[-1].append(train)
        room -= asked
    return groups


def _row(
    cable: Cable, kind: str, name: str, direction: Direction, echo: Echo, train: Train | None, rate: Train | None
) -> Measured:
    row = Measured(
        link=name,
        cable=cable.name,
        kind=kind,
        claimed_rtt_ms=cable.link.rtt_ms,
        measured_rtt_ms=echo.median_ms,
        claimed_delay_ms=direction.delay_ms,
        measured_delay_ms=train.delay_ms if train else None,
        claimed_rate_bits_per_s=direction.rate_bits_per_s,
        measured_rate_bits_per_s=rate.rate_bits_per_s if rate else None,
        claimed_loss_percent=direction.loss_percent,
        measured_loss_percent=100 * train.lost / train.sent if train and train.sent else None,
        probes=train.sent if train else 0,
    )
    return replace(row, problems=tuple(problems(row, cable.link, direction)))


def problems(row: Measured, link: Link, direction: Direction) -> list[str]:
    """What of a row is not as claimed, with the figures."""
    found = []
    expected_ms = row.claimed_rtt_ms + _at_rate_ms(link.there) + _at_rate_ms(link.back)
    if row.measured_rtt_ms is None:
        found.append(f"{row.link}: no echo came back")
    elif abs(row.measured_rtt_ms - expected_ms) > max(RTT_MS, RTT_SHARE * row.claimed_rtt_ms):
        found.append(f"{row.link}: claims an rtt of {row.claimed_rtt_ms:g} ms, measured {row.measured_rtt_ms:.3f} ms")
    claimed = row.claimed_rate_bits_per_s
    if claimed is not None:
        measured = row.measured_rate_bits_per_s
        if measured is None or abs(measured - claimed) > RATE_SHARE * claimed:
            text = "nothing" if measured is None else f"{measured / 1e6:.3f} Mbit/s"
            found.append(f"{row.link}: claims {claimed / 1e6:g} Mbit/s, measured {text}")
    if row.measured_loss_percent is not None:
        low, high = expected_range(
            row.probes,
            direction.loss_percent / 100,
            confidence=CONFIDENCE,
            correlation=direction.correlation_percent / 100,
        )
        lost = round(row.measured_loss_percent / 100 * row.probes)  # whole again, so that the edges are exact
        if not low <= lost / row.probes <= high:
            found.append(
                f"{row.link}: claims a loss of {direction.loss_percent:g} %, measured {row.measured_loss_percent:.2f} %"
                f" of {row.probes} probes"
            )
    return found


def _at_rate_ms(direction: Direction) -> float:
    """How long a probe takes to leave at the rate."""
    return SMALL_BYTES * 8000 / direction.rate_bits_per_s if direction.rate_bits_per_s else 0.0
