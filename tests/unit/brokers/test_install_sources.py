"""The parts of an install that need no registry: services that must not start, a pom, a tarball, a Python."""

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

from brokerlab.brokers.install import needs
from brokerlab.brokers.install.debian import no_service_starts
from brokerlab.brokers.install.maven import _pom, _unpack
from brokerlab.brokers.install.receipt import described
from brokerlab.brokers.source import Crate, DebianSuite, Maven, PyPI
from brokerlab.errors import RunError, UserError

pytestmark = pytest.mark.unit


@pytest.fixture
def policy(tmp_path):
    return tmp_path / "policy-rc.d"


def script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_services_are_forbidden_only_while_packages_are_installed(policy):
    with no_service_starts(["mosquitto"], policy):
        assert subprocess.run([policy, "mosquitto", "start"], check=False).returncode == 101

    assert not policy.exists()


def test_a_policy_of_the_machine_is_kept(policy):
    script(policy, "exit 101")

    with no_service_starts(["mosquitto"], policy):
        assert policy.read_text() == "#!/bin/sh\nexit 101\n"
    assert policy.read_text() == "#!/bin/sh\nexit 101\n"


def test_a_policy_that_lets_services_start_is_refused(policy):
    script(policy, '[ "$1" = ejabberd ] || exit 101')

    with (
        pytest.raises(UserError, match="would let ejabberd start"),
        no_service_starts(["mosquitto", "ejabberd"], policy),
    ):
        pytest.fail("it was allowed")


def test_a_policy_that_a_killed_install_left_is_taken_away(policy):
    with no_service_starts([], policy):
        left = policy.read_text()
    script(policy, "")
    policy.write_text(left)

    with no_service_starts(["mosquitto"], policy):
        pass
    assert not policy.exists()


def test_every_dependency_of_a_pom_has_the_exclusions():
    pom = _pom(Maven(("g:a:1", "g:b:2"), exclude=("x:old",)))

    assert pom.count("<exclusion><groupId>x</groupId><artifactId>old</artifactId></exclusion>") == 2
    assert "<groupId>g</groupId><artifactId>b</artifactId><version>2</version>" in pom


def tarball(path, *members):
    with tarfile.open(path, "w:gz") as opened:
        for name in members:
            member = tarfile.TarInfo(name)
            member.size = 2
            opened.addfile(member, io.BytesIO(b"1\n"))
    return path


def test_a_tarball_is_unpacked_without_its_first_folder(tmp_path):
    _unpack(tarball(tmp_path / "a.tar.gz", "broker-1/bin/run", "./broker-1/lib/a.jar"), tmp_path / "dist")

    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()) == [
        "a.tar.gz",
        "dist/bin/run",
        "dist/lib/a.jar",
    ]


def test_a_tarball_that_leaves_its_folder_is_refused(tmp_path):
    with pytest.raises(RunError, match="cannot be unpacked"):
        _unpack(tarball(tmp_path / "a.tar.gz", "broker-1/../../outside"), tmp_path / "dist")
    assert not (tmp_path.parent / "outside").exists()


def test_a_python_on_the_path_that_does_not_run_gives_way_to_one_of_pyenv(tmp_path, monkeypatch):
    script(tmp_path / "shims" / "python3.8", "echo pyenv: version not chosen >&2; exit 127")
    wanted = script(tmp_path / "pyenv" / "versions" / "3.8.18" / "bin" / "python3.8", "echo 3.8")
    script(tmp_path / "pyenv" / "versions" / "3.80.1" / "bin" / "python3.8", "echo 3.80")
    monkeypatch.setenv("PATH", f"{tmp_path}/shims:/usr/bin:/bin")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))

    assert needs.find_python("3.8") == wanted
    assert needs.find_python("3.7") is None
    assert "pyenv install 3.7" in str(needs.lacking(PyPI(("old==1",), python="3.7")))


def test_what_is_lacking_is_named_with_what_to_do(monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(needs, "_SYSTEM_PROGRAMS", "/nowhere")
    monkeypatch.setattr("os.geteuid", lambda: 1000)

    assert "sudo apt-get install maven default-jdk-headless" in str(
        needs.lacking(Maven(("g:a:1",), launcher=Path("Run.java")))
    )
    assert "sudo apt-get install cargo" in str(needs.lacking(Crate("rmqttd", "0.24.0", "rmqttd")))
    assert "needs root" in str(needs.lacking(DebianSuite("trixie", ("mosquitto",))))


def test_a_changed_launcher_is_another_source(tmp_path):
    here, there = tmp_path / "a" / "Run.java", tmp_path / "b" / "Run.java"
    for path in (here, there):
        path.parent.mkdir()
        path.write_text("class Run {}")
    source = described(Maven(("g:a:1",), launcher=here))

    assert source == described(Maven(("g:a:1",), launcher=there))
    there.write_text("class Run { }")
    assert source != described(Maven(("g:a:1",), launcher=there))
