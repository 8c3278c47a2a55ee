from pathlib import Path

import pytest

from brokerlab.errors import UserError
from brokerlab.pipeline.java import class_archive, find_java, use_java

pytestmark = pytest.mark.unit


def java(home: Path, version: str) -> Path:
    """A program that says of itself what a Java of this version says."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n", encoding="ascii")
    program.chmod(0o755)
    return program


@pytest.mark.parametrize(
    ("version", "major"), [("17.0.15", 17), ("21", 21), ("25-ea", 25), ("11.0.2", None), ("1.8.0_402", None)]
)
def test_only_java_17_and_newer_counts(tmp_path: Path, version: str, major: int | None) -> None:
    java(tmp_path / "jvm", version)
    found = find_java({"JAVA_HOME": str(tmp_path / "jvm"), "PATH": ""}, installed=tmp_path / "none")

    assert (found.major if found else None) == major


def test_java_home_comes_before_path_and_path_before_debian(tmp_path: Path) -> None:
    home, on_path, debian = (java(tmp_path / name, "17") for name in ("home", "path", "jvm/debian"))
    env = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(on_path.parent)}

    def chosen(env: dict[str, str]) -> Path:
        found = find_java(env, installed=tmp_path / "jvm")
        assert found
        return found.program

    assert chosen(env) == home
    assert chosen({"PATH": env["PATH"]}) == on_path
    assert chosen({"PATH": ""}) == debian


def test_an_old_java_home_is_passed_over(tmp_path: Path) -> None:
    java(tmp_path / "old", "11.0.2")
    new = java(tmp_path / "new", "17.0.1")
    found = find_java({"JAVA_HOME": str(tmp_path / "old"), "PATH": str(new.parent)}, installed=tmp_path / "none")

    assert found
    assert found.home == tmp_path / "new"


def test_a_program_that_is_no_java_is_passed_over(tmp_path: Path) -> None:
    program = java(tmp_path / "jvm", "17")
    program.write_text("#!/bin/sh\necho hello\n", encoding="ascii")

    assert find_java({"JAVA_HOME": str(tmp_path / "jvm"), "PATH": ""}, installed=tmp_path / "none") is None


def test_spark_is_pointed_at_the_java_that_was_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    try:
        chosen = use_java()
    except UserError as problem:
        pytest.skip(problem.message)

    found = find_java()
    assert found
    assert found.home == chosen.home


def test_no_java_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("brokerlab.pipeline.java.find_java", lambda: None)

    with pytest.raises(UserError, match="Java 17") as problem:
        use_java()
    assert "openjdk-17-jre-headless" in problem.value.hint


def test_kept_classes_are_of_one_java_and_one_spark(tmp_path: Path) -> None:
    archives = set()
    for version in ("17.0.15", "21.0.2"):
        java(tmp_path / version, version)
        found = find_java({"JAVA_HOME": str(tmp_path / version), "PATH": ""}, installed=tmp_path / "none")
        assert found
        assert f"java-{version}-spark-" in class_archive(found).name
        archives.add(class_archive(found))
    assert len(archives) == 2
