"""`python -m brokerlab.bridge FILE`: the bridge alone, quicker to start without the rest of brokerlab."""

import sys
from pathlib import Path

from brokerlab.bridge.file import read_bridge
from brokerlab.bridge.program import Program
from brokerlab.errors import ExitCode, LabError


def main(path: Path) -> int:
    """The exit code."""
    try:
        Program(read_bridge(path), say=_say, announce=lambda text: print(text, flush=True)).run()
    except LabError as error:
        _say("\n".join([f"brokerlab: {error.message}", *([error.hint] if error.hint else [])]))
        return error.exit_code
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    return ExitCode.VALID


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
