"""What the program says to a wrong command line, and with which exit code it leaves."""

import os
import subprocess
import sys

import pytest
from cli_program import Program

from brokerlab.cli import main
from brokerlab.errors import ExitCode, RunError, UserError

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rnu"], "'run'"),
        (["run", "x", "--rsume"], "--resume"),
        (["show", "x", "--cvs"], "--csv"),
        (["plan"], "STUDY"),
        (["plan", "a", "b"], "b"),
        (["run", "x", "--stop-after", "lunch"], "'runs', 'tables'"),
        (["presets", "cpoy"], "'copy'"),
        (["plan", "first-lihgt"], "first-light"),
        (["plan", "quite-another"], "first-light"),
        (["presets", "copy", "first-lihgt"], "first-light"),
        (["analyze", "nowhere"], "nowhere"),
        (["report", "nowhere"], "nowhere"),
        (["show", "nowhere"], "nowhere"),
    ],
)
def test_bad_input_is_64_and_names_what_was_meant(brokerlab: Program, arguments: list[str], said: str) -> None:
    done = brokerlab(*arguments)

    assert (done.returncode, done.stdout) == (64, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_help_lists_commands_and_exit_codes(brokerlab: Program) -> None:
    done = brokerlab("--help")

    assert done.returncode == 0
    for word in ("doctor", "plan", "run", "analyze", "show", "report", "presets", *map(str, map(int, ExitCode))):
        assert word in done.stdout


def test_nothing_that_takes_seconds_to_load_is_loaded_before_a_command_needs_it() -> None:
    heavy = ("altair", "docker", "numba", "pandas", "pyroute2", "pyspark")
    look = f"import sys; from brokerlab.cli.main import app_for; app_for(''); print(sys.modules.keys() & {set(heavy)})"
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)

    assert done.stdout == "set()\n"


def test_no_arguments_is_help(brokerlab: Program) -> None:
    assert brokerlab().stdout == brokerlab("--help").stdout


def test_version(brokerlab: Program) -> None:
    assert brokerlab("--version").stdout == f"brokerlab {main.brokerlab.__version__}\n"


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (UserError("no broker", hint="install one"), 64, "brokerlab: no broker\n           install one\n"),
        (RunError("it died\nof this"), 1, "brokerlab: it died\n           of this\n"),
    ],
)
def test_an_explained_error_has_message_hint_and_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception, code: int, said: str
) -> None:
    monkeypatch.setattr(main, "app_for", _raising(error))

    assert main._exit_code() == code
    assert capsys.readouterr().err == said


def test_a_bug_keeps_its_traceback_and_is_70(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(main, "app_for", _raising(ZeroDivisionError("ours")))

    assert main._exit_code() == 70
    assert "ZeroDivisionError: ours" in capsys.readouterr().err


def test_a_reader_that_leaves_is_not_told() -> None:
    """`brokerlab plan --json | head`: more is written than a pipe holds, and nobody reads it."""
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "brokerlab.cli.main", "plan", "first-light", "--json"],
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(writer)

    assert done.stderr == b""


def _raising(error: Exception):
    def call(*_: object) -> None:
        raise error

    return call
