"""`brokerlab import` and `bundle` as a shell calls them: what they say, and their exit codes."""

from pathlib import Path

import pytest
from cli_program import Program

pytestmark = pytest.mark.unit

LOG = "recv(1000): total=100, rate=100(msg/sec)\nnot a total\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "sub.log"
    path.write_text(LOG, encoding="utf-8")
    return path


def test_an_import_is_told_with_its_malformed_lines_and_can_be_packed(brokerlab: Program, log: Path) -> None:
    done = brokerlab("import", "emqtt-bench", str(log), "--out", "out", "--level", "broker=emqx")
    packed = brokerlab("bundle", "out")

    assert (done.returncode, packed.returncode) == (0, 0)
    assert "broker-emqx/1" in done.stdout
    assert "malformed: sub.log:2: not a total of emqtt-bench" in done.stderr
    assert packed.stdout.startswith("out.tar.gz: 3 files")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["emqttbench", "sub.log"], "did you mean emqtt-bench?"),
        (["emqtt-bench", "sub.log", "--level", "broker"], "--level 'broker' is not FACTOR=LEVEL"),
        (["emqtt-bench", "sub.log", "--every", "soon"], "--every 'soon'"),
    ],
)
def test_bad_input_is_one_message_and_64(brokerlab: Program, log: Path, arguments: list[str], message: str) -> None:
    done = brokerlab("import", *arguments)

    assert done.returncode == 64
    assert message in done.stderr
    assert not (log.parent / "results").exists()
