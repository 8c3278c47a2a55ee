import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

import brokerlab
from brokerlab.errors import UserError
from brokerlab.pipeline import java, session
from brokerlab.pipeline.session import open_session

pytestmark = pytest.mark.pipeline


def test_opening_without_java_fails_before_spark_starts(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr(java, "INSTALLED", tmp_path)

    with pytest.raises(UserError, match="Spark needs Java 17") as refused:
        open_session(app="none")
    assert "apt-get install openjdk-17-jre-headless" in refused.value.hint


def test_spark_says_nothing_on_the_terminal(tmp_path):
    """From start to end, warnings about the host's name, modules, native libraries and progress included."""
    program = (
        "from brokerlab.pipeline.session import open_session\n"
        "with open_session(app='quiet', master='local[1]') as spark:\n"
        "    print(spark.range(3).repartition(2).count())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, timeout=120, check=False
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")
    assert list(tmp_path.iterdir()) == []  # nothing is left where it was called


def test_times_are_utc_and_workers_are_our_python(spark):
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.pyspark.python") == sys.executable


def test_only_session_opens_spark_and_nothing_needs_the_classic_one():
    sources = {path: path.read_text() for path in Path(brokerlab.__file__).parent.rglob("*.py")}
    builders = [path.name for path, text in sources.items() if "SparkSession.builder" in text]
    classic = [path.name for path, text in sources.items() if re.search(r"\.rdd\b|sparkContext|_jvm|_jdf", text)]

    assert builders == ["session.py"]
    assert classic == []


def test_java_begins_with_the_classes_that_were_kept(tmp_path, monkeypatch):
    kept = tmp_path / "kept.jsa"
    monkeypatch.setattr(session, "class_archive", lambda _: kept)
    options = partial(session._of_classes, java.find_java(), None)

    assert options() == []
    kept.touch()
    assert f"-XX:SharedArchiveFile={kept}" in options()


def test_a_spoilt_archive_of_classes_is_passed_over(tmp_path):
    """It costs seconds, never a result or a word on the terminal."""
    spoilt = tmp_path / "kept.jsa"
    spoilt.write_bytes(b"no archive")
    program = (
        "import sys; from pathlib import Path\n"
        "from brokerlab.pipeline import session\n"
        "session.class_archive = lambda java: Path(sys.argv[1])\n"
        "with session.open_session(app='kept', master='local[1]') as spark:\n"
        "    print(spark.range(3).count(), spark.conf.get('spark.driver.extraJavaOptions').count(sys.argv[1]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(spoilt)], capture_output=True, text=True, timeout=120, check=False
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "3 1\n", "")
