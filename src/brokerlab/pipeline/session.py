"""The one place that opens Spark, with Java checked first and nothing printed on the user's terminal."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from brokerlab import inventory
from brokerlab.errors import UserError
from brokerlab.pipeline.java import use_java


def open_session(*, app: str, memory_gib: int = 1, master: str | None = None) -> SparkSession:
    """A Spark session on all cores of this machine, unless `master` names another place.

    Whoever opens it stops it: `with open_session(app=...) as spark:`.
    Java's own standard error goes to a file for as long as it lives, because it warns of its modules whatever
    it is told. That takes this process's standard error aside while Java starts.
    """
    use_java()
    # Java outlives the session and ends with this process, so its folder does too.
    folder = inventory.folder_until_exit("brokerlab-spark-")
    builder = SparkSession.builder.appName(app).master(master or "local[*]")
    for name, value in settings(memory_gib=memory_gib, folder=folder).items():
        builder = builder.config(name, value)
    log = folder / "java.log"
    try:
        with _environment({**_ENVIRONMENT, **inventory.mark()}), _standard_error_to(log):
            return builder.getOrCreate()
    except PySparkRuntimeError as problem:
        raise UserError(
            f"Spark did not start: {problem}\n{_end_of(log)}", hint="look at Java with `brokerlab doctor`"
        ) from problem


def settings(*, memory_gib: int, folder: Path) -> Mapping[str, str]:
    """Every setting that is not Spark's own choice, with its reason."""
    quiet = folder / "log4j2.properties"
    temporary = folder / "java"
    temporary.mkdir(exist_ok=True)
    quiet.write_text("rootLogger.level = off\n", encoding="utf-8")
    return {
        "spark.driver.memory": f"{memory_gib}g",  # all the memory there is when the driver is the executor
        "spark.pyspark.python": sys.executable,  # workers must find our packages, not those of another Python
        "spark.pyspark.driver.python": sys.executable,
        "spark.driver.host": "127.0.0.1",  # the machine's own name may lead to no address, or to a public one
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",  # no port, no web server for a job of seconds
        "spark.ui.showConsoleProgress": "false",  # the terminal is ours
        "spark.log.level": "OFF",  # failures reach us as exceptions, with the same text
        "spark.driver.extraJavaOptions": " ".join(
            [
                f"-Dlog4j2.configurationFile={quiet.as_uri()}",  # also quiet before spark.log.level is read
                f"-Djava.io.tmpdir={temporary}",  # or a killed Java leaves libraries in everybody's
                "-XX:-UsePerfData",  # nobody watches it, and its file would stay
                "-XX:TieredStopAtLevel=1",  # seconds of work: compiling thoroughly costs more than it gains
                "-XX:+UseSerialGC",  # two cores and one GiB: collector threads would take the workers' time
            ]
        ),
        "spark.sql.session.timeZone": "UTC",  # times on screen mean the same everywhere
        "spark.sql.shuffle.partitions": "2",  # what is shuffled are partial results, some thousand rows
        "spark.sql.adaptive.enabled": "false",  # plans of small frames gain nothing from being replanned
        "spark.sql.autoBroadcastJoinThreshold": "64m",  # runs and totals are small: join without a shuffle
        "spark.sql.warehouse.dir": str(folder / "warehouse"),  # nothing is left in the working directory
        "spark.local.dir": str(folder / "scratch"),
        "spark.sql.parquet.compression.codec": "zstd",  # as the raw files
        "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",  # tables are put in place whole
    }


# What Java and the workers that it starts take from the environment and from nowhere else.
_ENVIRONMENT = {
    "PYSPARK_PYTHON": sys.executable,  # data sources are planned by this one
    "PYSPARK_DRIVER_PYTHON": sys.executable,
    "SPARK_LOCAL_IP": "127.0.0.1",
}


@contextmanager
def _environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Sets variables and puts the old ones back."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def _standard_error_to(log: Path) -> Iterator[None]:
    """Lets processes that start meanwhile inherit a file as their standard error."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with log.open("wb") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)


def _end_of(log: Path) -> str:
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-10:])
