"""The Java that Spark runs on: found before anything starts, so that no measurement waits for nothing."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from brokerlab.errors import UserError

OLDEST_JAVA = 17  # Spark 4 says so
INSTALLED = Path("/usr/lib/jvm")  # where Debian puts them
DEBIAN_PACKAGE = "openjdk-17-jre-headless"
HINT = f"on Debian: apt-get install {DEBIAN_PACKAGE}; elsewhere install Java {OLDEST_JAVA} or newer and set JAVA_HOME"
_VERSION = re.compile(r'version "((?:1\.)?(\d+)[^"]*)"')  # up to Java 8 it says 1.8.0_x
_LONGEST_ANSWER_S = 20.0


@dataclass(frozen=True, slots=True)
class Java:
    program: Path
    major: int
    version: str = ""

    @property
    def home(self) -> Path:
        """What JAVA_HOME must be for this program; /usr/bin/java is a link into it."""
        return self.program.resolve().parent.parent


def find_java(env: Mapping[str, str] = os.environ, *, installed: Path | None = None) -> Java | None:
    """The first Java that is new enough: JAVA_HOME's, PATH's, then Debian's own place."""
    found = (java for program in _candidates(env, installed or INSTALLED) if (java := _asked(program)) is not None)
    return next((java for java in found if java.major >= OLDEST_JAVA), None)


def use_java() -> Java:
    """Makes Spark, which looks at JAVA_HOME first, use the Java that was found."""
    java = find_java()
    if java is None:
        raise UserError(f"Spark needs Java {OLDEST_JAVA} or newer, and none was found", hint=HINT)
    os.environ["JAVA_HOME"] = str(java.home)
    return java


def class_archive(java: Java) -> Path:
    """Where the classes of Spark are kept, as Java has them in memory, if `tools/keep-classes` has put them there.

    Loading them from their jars takes a fifth of the CPU of a small analysis. Java itself looks whether they are of
    the same jars and the same build of it, and does without otherwise.
    """
    return Path(sys.prefix) / "share" / "brokerlab" / f"java-{java.version}-spark-{version('pyspark')}.jsa"


def _candidates(env: Mapping[str, str], installed: Path) -> Iterator[Path]:
    if home := env.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java"
    if program := shutil.which("java", path=env.get("PATH")):
        yield Path(program)
    yield from sorted(installed.glob("*/bin/java"))


def _asked(program: Path) -> Java | None:
    """What the program says of itself; None if it does not run or says something else."""
    try:
        answer = subprocess.run(
            [program, "-version"], capture_output=True, text=True, timeout=_LONGEST_ANSWER_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(answer.stderr + answer.stdout)
    return Java(program, int(match.group(2)), match.group(1)) if match else None
