"""Tables of `docker stats` (X-08, B-22): as it draws them, by --format with commas, or as JSON.

A line may begin with a time (as `ts` writes it), or a line alone may be one; else --every says how far samples are
apart. Units are Docker's: kB is 1,000 bytes and KiB is 1,024.
"""

import json
import re
from collections.abc import Iterator, Sequence

from brokerlab.imports.base import Options, Reading, Source, every_ns
from brokerlab.imports.samples import Samples
from brokerlab.imports.times import iso_ns

_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_TIMED = re.compile(r"(\d{4}-\d\d-\d\d[T \-]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)[\s,]*(.*)")
_SIZE = re.compile(r"([\d.]+)\s*([kKMGTP]?i?)B")
_JSON_KEYS = ("ID", "Name", "CPUPerc", "MemUsage", "MemPerc", "NetIO", "BlockIO", "PIDs")
_COLUMNS = len(_JSON_KEYS)


class DockerStats:
    name = "docker-stats"
    about = "`docker stats`: its table, --format with commas, or JSON; with times, or --every"
    is_folder_a_run = False

    def read(self, sources: Sequence[Source], options: Options) -> list[Reading]:
        samples = Samples()
        for source in sources:
            for number, line, at_ns, fields in _rows(source, options):
                if fields is None or not _add(samples, fields, at_ns, options):
                    source.refuse(number, line, "not a row of docker stats")
        return [samples.reading()] if samples.times() else []


def _rows(source: Source, options: Options) -> Iterator[tuple[int, str, int, list[str] | None]]:
    """Number, text, time and columns of each row; a container that comes again begins the next sample."""
    said_ns: int | None = None
    seen: set[str] = set()
    sample = 0
    for number, written in source:
        line = _CONTROL.sub("", written).strip()
        timed = _TIMED.fullmatch(line)
        if timed:
            said_ns, line = iso_ns(timed[1]), timed[2]
        if not line or line.startswith("CONTAINER"):
            continue
        fields = _fields(line)
        if fields is None:
            yield number, written, 0, None
            continue
        if said_ns is not None:
            yield number, written, said_ns, fields
            continue
        if fields[0] in seen:
            sample, seen = sample + 1, set()
        seen.add(fields[0])
        yield number, written, sample * every_ns([source], options), fields


def _fields(line: str) -> list[str] | None:
    """ID, name, CPU %, memory, memory %, net, block, PIDs."""
    if line.startswith("{"):
        try:
            row = json.loads(line)
            return [str(row[key]) for key in _JSON_KEYS]
        except (ValueError, KeyError, TypeError):
            return None
    fields = [field.strip() for field in (line.split(",") if "," in line else re.split(r"\s{2,}", line))]
    return fields if len(fields) == _COLUMNS else None


def _add(samples: Samples, fields: Sequence[str], at_ns: int, options: Options) -> bool:
    _, name, cpu, memory, _, net, block, threads = fields
    used, moved, stored = _sizes(memory), _sizes(net), _sizes(block)
    if used is None or moved is None or stored is None or not re.fullmatch(r"\d+(\.\d+)?%", cpu):
        return False
    node = options.node(name)
    samples.use(
        node,
        at_ns,
        cpu_percent=float(cpu[:-1]),
        rss_bytes=used[0],
        read_bytes=stored[0],
        written_bytes=stored[1],
        threads=int(threads) if threads.isdecimal() else None,
    )
    samples.tell(node, "net rx bytes", at_ns, moved[0])
    samples.tell(node, "net tx bytes", at_ns, moved[1])
    return True


def _sizes(pair: str) -> tuple[int, int] | None:
    """Both bytes of "1.2kB / 3.4MB"."""
    sizes = [size_bytes(part) for part in pair.split("/")]
    if len(sizes) != 2 or sizes[0] is None or sizes[1] is None:
        return None
    return sizes[0], sizes[1]


def size_bytes(text: str) -> int | None:
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        return None
    base = 1024 if match[2].endswith("i") else 1000
    power = " KMGTP".index(match[2][:1].upper() or " ")
    try:
        return round(float(match[1]) * float(base**power))
    except ValueError:
        return None
