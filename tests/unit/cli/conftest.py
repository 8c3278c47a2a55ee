import os
import subprocess
import sys
from pathlib import Path

import pytest
from cli_program import STUDY, Program


@pytest.fixture
def brokerlab(tmp_path: Path) -> Program:
    """Runs the program in an empty directory, as a shell would, and hands back what it said."""

    def run(*arguments: str, env: dict[str, str] | None = None) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "brokerlab.cli.main", *arguments],
            cwd=tmp_path,
            env=os.environ | (env or {}),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.yaml"
    path.write_text(STUDY, encoding="utf-8")
    return path
