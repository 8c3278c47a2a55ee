"""Files that are made instead of given: of the same shape as data that may not be passed on, the same for a seed.

    bus-gps    a day of positions of a city's buses, as paper 000 replayed (218,772 records of Teresina, 2019-11-30):
               line, vehicle, latitude, longitude and time of each, in the order of time

The numbers come from the raw output of PCG64, which NumPy promises not to change, so the same record count and seed
give the same bytes on every machine.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from brokerlab.study.problems import RuleError, check_name

BUS_GPS = "bus-gps"
SHAPES = (BUS_GPS,)
RECORDS = 218_772  # of the file that paper 000 had
_MOST = 10_000_000
_KEYS = {"made", "records", "seed"}
_HEADER = "line,vehicle,latitude,longitude,time\n"
_LINES, _VEHICLES = 96, 440
_CENTRE = (-5.0892, -42.8019)  # degrees
_DAY_S = 86_400

Longs = NDArray[np.int64]


def made_file(written: dict[object, object]) -> Path:
    """The file that `{made: bus-gps, records: n, seed: s}` means; made in the user's cache where it is not there."""
    if unknown := [key for key in written if key not in _KEYS]:
        raise RuleError(f"a made file has {', '.join(sorted(_KEYS))}, and no {unknown[0]!r}")
    shape = check_name("shape of a made file", written.get("made"), known=list(SHAPES))
    records = _whole(written.get("records", RECORDS), "records", most=_MOST)
    seed = _whole(written.get("seed", 1), "seed", most=2**63)
    path = _folder() / f"{shape}-{records}-{seed}.csv"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_name(f"{path.name}.{os.getpid()}")
        unfinished.write_text("".join(_bus_gps(records, seed)), encoding="ascii")
        unfinished.replace(path)
    return path


def _folder() -> Path:
    if own := os.environ.get("BROKERLAB_CACHE"):
        return Path(own) / "made"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "brokerlab" / "made"


def _whole(written: object, name: str, *, most: int) -> int:
    if isinstance(written, bool) or not isinstance(written, int) or not 1 <= written <= most:
        raise RuleError(f"{name} of a made file is a whole number from 1 to {most}")
    return written


def _bus_gps(records: int, seed: int) -> Iterator[str]:
    """Buses are where their line goes, off by some hundred metres; more of them run by day than by night."""
    raw = np.random.PCG64(seed).random_raw(4 * records).reshape(4, records)
    uniform = (raw >> np.uint64(11)).astype(np.float64) / 2.0**53
    seconds = np.sort(_daily(uniform[0]))
    vehicles = (uniform[1] * _VEHICLES).astype(np.int64)
    lines = vehicles % _LINES
    angle = 2 * np.pi * (lines / _LINES + seconds / _DAY_S * 12)
    radius = 0.02 + 0.06 * (lines % 7) / 7
    latitudes = _CENTRE[0] + radius * np.sin(angle) + (uniform[2] - 0.5) * 0.004
    longitudes = _CENTRE[1] + radius * np.cos(angle) + (uniform[3] - 0.5) * 0.004
    yield _HEADER
    for line, vehicle, latitude, longitude, second in zip(
        lines.tolist(), vehicles.tolist(), latitudes.tolist(), longitudes.tolist(), seconds.tolist(), strict=True
    ):
        yield f"{line + 1:03d},{vehicle + 1:05d},{latitude:.6f},{longitude:.6f},{_clock(second)}\n"


def _daily(uniform: NDArray[np.float64]) -> Longs:
    """Seconds of the day: a tenth of the records before six, the rest evenly after."""
    night = uniform < 0.1
    seconds = np.where(night, uniform / 0.1 * 6 * 3600, 6 * 3600 + (uniform - 0.1) / 0.9 * 18 * 3600)
    whole: Longs = np.minimum(seconds, _DAY_S - 1).astype(np.int64)
    return whole


def _clock(second: int) -> str:
    return f"2019-11-30T{second // 3600:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
