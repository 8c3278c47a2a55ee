"""Programs on this machine: where they are, and which version they say they are."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

_DEADLINE_S = 10.0


def find_program(name: str, *also_in: Path) -> str | None:
    """The path of an executable, looked for in `also_in` and then on the PATH."""
    for folder in also_in:
        if found := shutil.which(name, path=str(folder)):
            return found
    return shutil.which(name)


def scripts_of_this_python() -> Path:
    """The folder where pip puts the programs of packages, also when the environment is not activated."""
    return Path(sys.executable).parent


def version_said_by(program: str, argument: str, pattern: str) -> str | None:
    """The first group of `pattern` in what `program argument` prints; None when it prints none."""
    try:
        done = subprocess.run(
            (program, argument),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_DEADLINE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(pattern, done.stdout + done.stderr)
    return match.group(1) if match else None
