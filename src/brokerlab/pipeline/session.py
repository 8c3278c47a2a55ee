"""The one place that opens Spark, with Java checked first and nothing printed on the user's terminal."""

import os
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import brokerlab
from brokerlab import inventory
from brokerlab.errors import UserError
from brokerlab.pipeline.java import Java, class_archive, use_java
from brokerlab.pipeline.master import Master, master_of

_PACKAGE = Path(brokerlab.__file__).parent

# A task that sends messages must not be made again in silence.
_ONCE = {
    "spark.stage.maxConsecutiveAttempts": "1",
    "spark.task.maxFailures": "1",
    "spark.barrier.sync.timeout": "120",  # seconds; Spark's own choice is a year
    "spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures": "2",  # or too few places look like a hang
    "spark.scheduler.barrier.maxConcurrentTasksCheck.interval": "3s",
}


def open_session(
    *, app: str, memory_gib: int = 1, master: str | None = None, has_effects: bool = False, archive: Path | None = None
) -> SparkSession:
    """A Spark session on all cores of this machine, unless `master` names another place (pipeline/master.py).

    Whoever opens it stops it: `with open_session(app=...) as spark:`.
    `has_effects` is for tasks that do more than compute: none of theirs is made a second time.
    `archive` is a file that Java leaves its classes in when it ends, for others to start with (java.class_archive).
    Java's own standard error goes to a file for as long as it lives, because it warns of its modules whatever
    it is told. That takes this process's standard error aside while Java starts.
    """
    place = master_of(master)
    place.require_answer()
    # Java outlives the session and ends with this process, so its folder does too.
    folder = inventory.folder_until_exit("brokerlab-spark-")
    if place.kind == "connect":
        session = _connected(place, app)
    else:
        options = _of_classes(use_java(), archive)
        chosen = settings(memory_gib=memory_gib, folder=folder, place=place, java_options=options)
        session = _started(place, app, {**chosen, **(_ONCE if has_effects else {})}, folder)
    if place.kind != "local":
        # Workers elsewhere need the modules that the tasks are made of; the libraries below them they must have.
        session.addArtifacts(str(_packed(folder)), pyfile=True)
    return session


def _started(place: Master, app: str, chosen: Mapping[str, str], folder: Path) -> SparkSession:
    builder = SparkSession.builder.appName(app).master(place.url)
    for name, value in chosen.items():
        builder = builder.config(name, value)
    log = folder / "java.log"
    try:
        with _environment({**_environment_of(place), **inventory.mark()}), _standard_error_to(log):
            return builder.getOrCreate()
    except Exception as problem:
        if not is_sparks(problem):
            raise
        raise UserError(
            f"Spark did not start on {place.url}: {_first_line(problem)}\n{_end_of(log)}",
            hint="look at Java with `brokerlab doctor`, and whether the master can be reached",
        ) from problem


def _connected(place: Master, app: str) -> SparkSession:
    """A session of a Spark Connect server; what a server was started with is its own matter."""
    builder: Any = SparkSession.builder
    try:
        session: SparkSession = builder.appName(app).remote(place.url).getOrCreate()
        for name, value in _session_settings().items():
            session.conf.set(name, value)
    except Exception as problem:
        if not is_sparks(problem):
            raise
        raise UserError(
            f"there is no Spark Connect at {place.url}: {_first_line(problem)}",
            hint="start it with Spark's own sbin/start-connect-server.sh, or give another --master",
        ) from problem
    return session


def is_sparks(problem: Exception) -> bool:
    """Whether Spark, its bridge to Java or its channel to a server failed, and not a line of ours."""
    return isinstance(problem, PySparkException) or type(problem).__module__.split(".")[0] in ("py4j", "grpc")


def _first_line(problem: Exception) -> str:
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0]


def _packed(folder: Path) -> Path:
    """Our own modules as one file."""
    path = folder / "brokerlab.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for module in sorted(_PACKAGE.rglob("*.py")):
            archive.write(module, Path("brokerlab") / module.relative_to(_PACKAGE))
    return path


def _session_settings() -> dict[str, str]:
    """What can be set of any session, also of one that somebody else's server keeps."""
    return {
        "spark.sql.session.timeZone": "UTC",  # times on screen mean the same everywhere
        "spark.sql.shuffle.partitions": "2",  # what is shuffled are partial results, some thousand rows
        # Where in Python an expression was written: five calls of Java and a search for IPython each, a sixth of the
        # CPU of small frames. What fails is ours, and has a trace of Python already.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.sql.dataFrameQueryContext.enabled": "false",  # Java's own part of it
        "spark.sql.adaptive.enabled": "false",  # plans of small frames gain nothing from being replanned
        "spark.sql.autoBroadcastJoinThreshold": "64m",  # runs and totals are small: join without a shuffle
        "spark.sql.parquet.compression.codec": "zstd",  # as the raw files
        # Segments of captures travel in rows of megabytes: a batch of the usual ten thousand rows would not fit.
        "spark.sql.execution.arrow.maxBytesPerBatch": str(32 * 2**20),
    }


def _of_classes(java: Java, archive: Path | None) -> list[str]:
    """Java's options to write an archive of its classes, or to begin with the one that is there."""
    kept = class_archive(java)
    if archive is not None:
        return [f"-XX:ArchiveClassesAtExit={archive}", "-Xlog:disable"]
    return [f"-XX:SharedArchiveFile={kept}", "-Xlog:disable"] if kept.exists() else []  # it warns if it cannot use it


def settings(*, memory_gib: int, folder: Path, place: Master, java_options: Sequence[str] = ()) -> Mapping[str, str]:
    """Every setting that is not Spark's own choice, with its reason."""
    quiet = folder / "log4j2.properties"
    temporary = folder / "java"
    temporary.mkdir(exist_ok=True)
    quiet.write_text("rootLogger.level = off\n", encoding="utf-8")
    return {
        "spark.driver.memory": f"{memory_gib}g",  # all the memory there is when the driver is the executor
        "spark.pyspark.python": sys.executable,  # workers must find our packages, not those of another Python
        "spark.pyspark.driver.python": sys.executable,
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
                *java_options,
            ]
        ),
        **_session_settings(),
        "spark.sql.warehouse.dir": str(folder / "warehouse"),  # nothing is left in the working directory
        "spark.hadoop.mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",  # tables are put in place whole
        **_settings_of_place(place, memory_gib, folder),
    }


def _settings_of_place(place: Master, memory_gib: int, folder: Path) -> dict[str, str]:
    chosen: dict[str, str] = {}
    if place.is_here:
        # The machine's own name may lead to no address, or to a public one.
        chosen |= {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    if place.kind == "local":
        return chosen | {"spark.local.dir": str(folder / "scratch")}
    return chosen | {"spark.executor.memory": f"{memory_gib}g"}


def _environment_of(place: Master) -> dict[str, str]:
    """What Java and the workers that it starts take from the environment and from nowhere else."""
    programs = {
        "PYSPARK_PYTHON": sys.executable,  # data sources are planned by this one
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    return {**programs, "SPARK_LOCAL_IP": "127.0.0.1"} if place.is_here else programs


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
