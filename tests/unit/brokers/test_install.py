"""An install is whole or not there, whatever interrupts it; two at once do not meet."""

import json
import os
import signal
from pathlib import Path

import pytest
from install_rig import FAILS, HANGS, WORKS, Heard, Toy, install_elsewhere, wait_for

from brokerlab.brokers.cache import installed
from brokerlab.brokers.install.installer import install, remove
from brokerlab.brokers.install.place import clear_leftovers, require_unmounted
from brokerlab.errors import RunError, UserError

pytestmark = pytest.mark.unit


@pytest.fixture
def npm(tmp_path, monkeypatch):
    """Makes `npm` a script that does as told."""
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")

    def does(script):
        for name in ("npm", "node"):
            (programs / name).write_text(f"#!/bin/sh\nset -e\n{script}\n")
            (programs / name).chmod(0o755)

    does(WORKS)
    return does


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("BROKERLAB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "brokers"


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_an_installed_broker_has_a_receipt_and_nothing_beside_it(npm, cache):
    outcome = install(Toy(), Heard())

    receipt = json.loads((cache / "toy" / "installed.json").read_text())
    assert (outcome.found.version, outcome.is_new) == ("1.0.0", True)
    assert (receipt["driver"], receipt["version"]) == ("toy", "1.0.0")
    assert receipt["source"] == {"kind": "Npm", "packages": {"toy": "1.0.0"}, "overrides": {}}
    assert receipt["sha256"] == {
        "package-lock.json": "ca3d163bab055381827226140568f3bef7eaac187cebd76878e0b63e9e442356"  # of "{}" and a newline
    }
    assert names(cache) == ["toy"]
    assert "npm install" in (cache / "toy" / "install.log").read_text()


def test_what_is_there_is_not_installed_again_unless_the_driver_names_another(npm):
    install(Toy(), Heard())

    assert not install(Toy(), Heard()).is_new
    assert install(Toy("1.0.1"), Heard()).is_new
    assert install(Toy("1.0.1"), Heard(), is_again=True).is_new


def test_a_tool_that_fails_shows_its_last_lines_and_leaves_the_broker_that_was_there(npm, cache):
    install(Toy(), Heard())
    npm(FAILS)

    with pytest.raises(RunError, match=r"(?s)exit code 3.*no such package: toy") as failed:
        install(Toy("1.0.1"), Heard())
    assert str(cache.parent / "logs" / "toy.log") in failed.value.hint
    assert names(cache) == ["toy"]
    assert json.loads((cache / "toy" / "installed.json").read_text())["version"] == "1.0.0"


def test_a_broker_in_another_version_than_installed_is_taken_back(npm, cache):
    with pytest.raises(RunError, match=r"version 1\.0\.0, but 0\.9 is found"):
        install(Toy(says="0.9"), Heard())

    assert names(cache) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_install_leaves_nothing_that_the_next_one_minds(npm, cache, number):
    npm(HANGS)
    cut_off = install_elsewhere()
    wait_for((cache / ".toy.partial" / "package-lock.json").exists, "a half-done install")

    cut_off.send_signal(number)
    cut_off.communicate(timeout=20)
    if number == signal.SIGINT:
        assert names(cache) == []
    npm(WORKS)
    assert installed("toy") is None
    assert install(Toy(), Heard()).is_new
    assert names(cache) == ["toy"]


def test_left_overs_of_one_broker_go_with_the_install_of_another(cache):
    (cache / ".toy.partial" / "lib").mkdir(parents=True)
    (cache / ".other.old").mkdir()
    (cache / ".other.old" / "installed.json").write_text("{}")
    (cache / ".mine").mkdir()  # not ours

    clear_leftovers()

    assert names(cache) == [".mine", "other"]  # the one before is put back: it was cut off between two renames


def test_the_second_of_two_installs_waits_for_the_first(npm, cache):
    npm(f"{WORKS}\nwhile [ ! -e {cache}/go-on ]; do sleep 0.05; done")
    first = install_elsewhere()
    wait_for((cache / ".toy.partial" / "package-lock.json").exists, "the first install")
    second = install_elsewhere()
    assert second.stdout.readline().startswith(f"waiting for process {first.pid}")
    (cache / "go-on").touch()

    assert first.communicate(timeout=30)[0].splitlines()[-1] == "new"
    assert second.communicate(timeout=30)[0].splitlines()[-1] == "there already"


def test_a_removed_broker_is_gone(npm, cache):
    install(Toy(), Heard())

    assert remove(Toy(), Heard())
    assert names(cache) == []
    assert not remove(Toy(), Heard())


def test_a_folder_with_a_mount_in_it_is_not_removed():
    with pytest.raises(UserError, match=r"(?s)cannot be removed while something is mounted in it: .*/proc"):
        require_unmounted(Path("/"))
