"""The errors that brokerlab explains to its user, and the exit codes of its commands.

    LabError              has a message and a hint: what to do next
      UserError           the study, the command line or the machine must be changed first
        StudyError        a study file with problems, all of them at once (study/problems.py)
      RunError            a broker, the network or the load failed while running

Anything else that reaches the command line is a bug of ours and keeps its traceback.
"""

from enum import IntEnum


class ExitCode(IntEnum):
    """What a command's exit code means; printed by `brokerlab --help`."""

    VALID = 0
    CHECK_FAILED = 1
    UNKNOWN = 2
    BAD_INPUT = 64
    OUR_BUG = 70
    INTERRUPTED = 130


class LabError(Exception):
    """An expected failure: what happened, and what to do next."""

    exit_code = ExitCode.CHECK_FAILED

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UserError(LabError):
    """Something that the user can change: a file, an option, a missing program or privilege."""

    exit_code = ExitCode.BAD_INPUT


class RunError(LabError):
    """A broker, the network or the load failed while it ran."""
