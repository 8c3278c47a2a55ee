"""collectl's plot format, `collectl -P` (M-24): a header that names the columns, a line a second.

    #Date Time [CPU]User% ... [MEM]Used ... [NET]RxKBTot ...
    20200601 12:00:01 12 ... 512000 ... 34 ...

Every column is kept as a counter of the node `machine`. CPU time needs the number of cores, which the comment lines
above the header tell.
"""

import re
from collections.abc import Mapping, Sequence

from brokerlab.imports.base import Options, Reading, Source
from brokerlab.imports.samples import Samples
from brokerlab.imports.times import iso_ns, number_ns

MACHINE = "machine"
_CORES = re.compile(r"NumCPUs:\s*(\d+)")


class Collectl:
    name = "collectl"
    about = "collectl's plot format (-P)"
    is_folder_a_run = False

    def read(self, sources: Sequence[Source], options: Options) -> list[Reading]:
        samples = Samples()
        for source in sources:
            _add_lines(samples, source, options)
        return [samples.reading()] if samples.times() else []


def _add_lines(samples: Samples, source: Source, options: Options) -> None:
    names: list[str] = []
    cores: int | None = None
    for number, line in source:
        if line.startswith("#"):
            cores = int(found[1]) if (found := _CORES.search(line)) else cores
            names = line[1:].split() if line[1:].startswith(("Date", "UTC")) else names
            continue
        fields = line.split()
        at_ns = _time_ns(names, fields)
        values = _values(names, fields)
        if at_ns is None or values is None:
            why = "it comes before a header" if not names else "not a line of numbers under the header"
            source.refuse(number, line, why)
            continue
        _add(samples, values, at_ns, cores, options)


def _time_ns(names: Sequence[str], fields: Sequence[str]) -> int | None:
    if len(names) != len(fields):
        return None
    if names[0] == "UTC":
        return number_ns(fields[0], "s")
    day = fields[0]
    return iso_ns(f"{day[:4]}-{day[4:6]}-{day[6:]} {fields[1]}") if len(day) == 8 else iso_ns(f"{day} {fields[1]}")


def _values(names: Sequence[str], fields: Sequence[str]) -> dict[str, float] | None:
    try:
        return {name: float(text) for name, text in zip(names, fields, strict=True) if name.startswith("[")}
    except ValueError:
        return None


def _add(samples: Samples, values: Mapping[str, float], at_ns: int, cores: int | None, options: Options) -> None:
    node = options.node(MACHINE)
    for name, value in values.items():
        samples.tell(node, name, at_ns, value)
    busy, used_kib = values.get("[CPU]Totl%"), values.get("[MEM]Used")
    samples.use(
        node,
        at_ns,
        cpu_percent=busy * cores if busy is not None and cores is not None else None,
        rss_bytes=round(used_kib * 1024) if used_kib is not None else None,
    )
