"""`brokerlab doctor`: what this machine can do, what limits it, and how to lift that."""

from dataclasses import asdict
from json import dumps
from typing import Annotated

import typer

from brokerlab.cli.checkup import Check, State
from brokerlab.cli.machine import machine_checks
from brokerlab.cli.privileges import privilege_checks
from brokerlab.cli.programs import broker_checks, program_checks
from brokerlab.cli.studies import needed_drivers
from brokerlab.cli.terminal import Columns, heading, say, table
from brokerlab.errors import ExitCode

DEMO = "first-light"


def doctor(
    json: Annotated[bool, typer.Option("--json", help="The same as JSON.")] = False,
) -> ExitCode:
    """Say what this machine can measure, and what limits it.

    Each limit comes with what follows from it and how to lift it. The exit code is 0 if the demo can run here.
    """
    needed = frozenset(needed_drivers(DEMO))
    checks = [*program_checks(), *broker_checks(needed=needed), *machine_checks(), *privilege_checks()]
    lacking = [check.name for check in checks if check.is_needed and check.state is State.MISSING]
    if json:
        say(dumps({"can_run_demo": not lacking, "checks": [asdict(check) for check in checks]}, indent=2))
    else:
        _print(checks, lacking)
    return ExitCode.CHECK_FAILED if lacking else ExitCode.VALID


def _print(checks: list[Check], lacking: list[str]) -> None:
    table(Columns(("check", "state", "found")), [(check.name, check.state, check.found) for check in checks])
    told = [check for check in checks if check.state is not State.OK]
    if told:
        heading("What follows, and how to lift it")
        for check in told:
            say(f"- {check.name}: {check.follows}; to lift it: {check.lift}")
    say()
    say(f"The demo cannot run here without {', '.join(lacking)}." if lacking else "The demo can run here: make demo")
