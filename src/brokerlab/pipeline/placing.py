"""Puts one finished table of its own in its place: written aside first, so that a failure leaves the old one."""

import shutil

from pyspark.sql import DataFrame

from brokerlab import inventory
from brokerlab.errors import UserError
from brokerlab.inventory import Thing
from brokerlab.pipeline.sources import write
from brokerlab.record.directory import StudyDirectory

_ASIDE = ".placing"  # below tables/


def place(table: DataFrame, results: StudyDirectory, name: str) -> None:
    """Writes the table and moves it to its name."""
    folder = results.tables / _ASIDE / name
    try:
        results.tables.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(folder, ignore_errors=True)  # of one that was killed
        with inventory.noted(Thing("folder", str(folder.absolute()))):
            try:
                write(table, folder / "new")
                if results.table(name).exists():
                    results.table(name).rename(folder / "old")
                (folder / "new").rename(results.table(name))
            finally:
                shutil.rmtree(folder, ignore_errors=True)
                if folder.parent.is_dir() and not any(folder.parent.iterdir()):
                    folder.parent.rmdir()
    except OSError as problem:
        raise UserError(f"{results.tables}: tables cannot be written there: {problem.strerror}") from problem
