import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import brokerlab
from brokerlab.errors import UserError
from brokerlab.pipeline.session import find_java, open_session

pytestmark = pytest.mark.pipeline


def fake_java(folder, says):
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return folder


def test_the_java_here_is_new_enough():
    java = find_java()

    assert java.version >= 17
    assert java.program.name == "java"


def test_no_java_says_what_to_install(tmp_path):
    with pytest.raises(UserError, match="there is no java in PATH") as refused:
        find_java({"PATH": str(tmp_path)})

    assert "apt-get install openjdk-17-jre-headless" in refused.value.hint


def test_java_home_without_java_is_named(tmp_path):
    with pytest.raises(UserError, match=re.escape(f"JAVA_HOME ({tmp_path})")):
        find_java({"PATH": os.environ["PATH"], "JAVA_HOME": str(tmp_path)})


@pytest.mark.parametrize(("says", "version"), [('openjdk version "11.0.2"', 11), ('java version "1.8.0_292"', 8)])
def test_an_old_java_is_refused_with_its_version(tmp_path, says, version):
    home = fake_java(tmp_path, says)

    with pytest.raises(UserError, match=f"is version {version}$"):
        find_java({"JAVA_HOME": str(home)})


def test_a_program_that_is_no_java_is_refused(tmp_path):
    with pytest.raises(UserError, match="does not tell its version"):
        find_java({"JAVA_HOME": str(fake_java(tmp_path, "hello"))})


def test_a_newer_java_in_java_home_is_taken(tmp_path):
    home = fake_java(tmp_path, 'openjdk version "21.0.1" 2023-10-17')

    assert find_java({"JAVA_HOME": str(home), "PATH": ""}).version == 21


def test_opening_without_java_fails_before_spark_starts(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)

    with pytest.raises(UserError, match="Spark needs Java 17"):
        open_session(app="none")


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
