"""What every format shares: the protocol, the options, a source's lines, and what was read."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from brokerlab.errors import UserError

NS_PER_S = 1_000_000_000
_SHOWN = 10  # malformed lines that are kept as they stand
_LONGEST_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Options:
    """What the user adds to what the source tells."""

    published: int | None = None  # messages of each publisher, where the study is known to have sent so many
    every_s: float | None = None  # between two samples, where the source gives no times
    split_s: float | None = None  # a pause of sending longer than this begins another repetition
    mapping: Path | None = None  # of columns, for CSV
    qos: int | None = None
    nodes: Mapping[str, str] = field(default_factory=dict)  # what a container or process is: {"emqx_0": "broker/0"}

    def node(self, name: str) -> str:
        return self.nodes.get(name, name)


class Source:
    """A foreign text file, line by line, with a count of what could not be read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines = 0
        self.malformed = 0
        self.examples: list[dict[str, Any]] = []

    def __iter__(self) -> Iterator[tuple[int, str]]:
        """Number and text of each line that is not blank, without what terminals are told."""
        try:
            with self.path.open(encoding="utf-8", errors="replace") as file:
                for number, line in enumerate(file, start=1):
                    if text := line.strip():
                        self.lines += 1
                        yield number, text
        except OSError as problem:
            raise UserError(f"{self.path} cannot be read: {problem.strerror}") from problem

    def refuse(self, number: int, line: str, why: str) -> None:
        """Counts a line that is not as the format says; the first ones are kept."""
        self.malformed += 1
        if len(self.examples) < _SHOWN:
            self.examples.append({"line": number, "why": why, "text": line[:_LONGEST_SHOWN]})


@dataclass(frozen=True, slots=True)
class Reading:
    """One run, as far as its source tells. Times are nanoseconds; of the wall clock if `has_wall_clock`."""

    raw: Mapping[str, pa.Table]  # by kind of raw file
    unknown: frozenset[str]
    start_ns: int
    end_ns: int
    clients: Mapping[str, Any] = field(default_factory=dict)  # section of the manifest
    workload: Mapping[str, Any] = field(default_factory=dict)
    told: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    has_wall_clock: bool = True


class Format(Protocol):
    """How the results of one tool are read."""

    @property
    def name(self) -> str: ...

    @property
    def about(self) -> str:
        """What it reads, in one line."""
        ...

    @property
    def is_folder_a_run(self) -> bool:
        """Whether the files of a folder are one run together; else each is one of its own."""
        ...

    def read(self, sources: Sequence[Source], options: Options) -> list[Reading]:
        """The runs that the files hold; none where no line is as the format says."""
        ...


def every_ns(sources: Sequence[Source], options: Options) -> int:
    """The time between two samples of a source that gives none."""
    if options.every_s is None:
        raise UserError(
            f"{sources[0].path}: its lines say no time",
            hint="say with --every how far its samples are apart",
        )
    return round(options.every_s * NS_PER_S)
