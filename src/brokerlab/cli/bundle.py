"""`brokerlab bundle`: a study as one archive."""

from pathlib import Path
from typing import Annotated

import typer

from brokerlab.cli.studies import ResultsArgument
from brokerlab.cli.terminal import say, warn
from brokerlab.record.bundle import pack
from brokerlab.record.directory import open_results


def bundle(
    directory: ResultsArgument,
    out: Annotated[Path | None, typer.Option("-o", "--out", metavar="FILE", help="Else <DIR's name>.tar.gz.")] = None,
    histograms: Annotated[
        bool, typer.Option("--histograms", help="Histograms and counts of every run instead of its raw files.")
    ] = False,
) -> None:
    """Pack study, manifests, raw data, configurations and tables of DIR into one archive.

    Unpacked anywhere, `brokerlab analyze` makes the same tables of it. With --histograms, tables of captured packets
    and traces are kept as they were packed. Secrets are never packed.
    """
    results = open_results(directory)
    packed = pack(results, out or Path(f"{results.path.resolve().name}.tar.gz"), histograms=histograms)
    for line in packed.left_out:
        warn(f"left out: {line}")
    say(f"{packed.path}: {packed.files} files, {packed.path.stat().st_size / 1e6:.1f} MB")
