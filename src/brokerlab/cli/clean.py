"""`brokerlab clean`: removes what a brokerlab that was killed has left behind."""

from dataclasses import asdict
from json import dumps
from typing import Annotated

import typer

from brokerlab.brokers.install.place import clear_leftovers
from brokerlab.cli.terminal import say, warn
from brokerlab.errors import ExitCode
from brokerlab.lab.leftovers import Leftover, find_leftovers, remove_leftovers


def clean(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what there is.")] = False,
    json: Annotated[bool, typer.Option("--json", help="The same as JSON.")] = False,
) -> ExitCode:
    """Remove what a brokerlab that was killed has left: processes, containers, cgroups, namespaces, folders.

    Only what dead ones of this user had written down or started; results and living ones are never touched.
    Half-made installs of brokers go too; `brokerlab run` does the rest before its first run.
    The exit code is 1 if something could not be removed.
    """
    found, problems = (list(find_leftovers().leftovers), []) if dry_run else remove_leftovers()
    if not dry_run:
        clear_leftovers()
    living = find_leftovers().living
    if json:
        content = {"leftovers": [_as_json(each) for each in found], "problems": problems, "living": living}
        say(dumps(content | {"removed": not dry_run}, indent=2))
    else:
        _print(found, living, is_removed=not dry_run)
        for problem in problems:
            warn(f"brokerlab: {problem}")
    return ExitCode.CHECK_FAILED if problems else ExitCode.VALID


def said(leftover: Leftover) -> str:
    """One line: how much one dead brokerlab left."""
    parts = [
        _count(len(leftover.processes), "process", "processes"),
        _count(len(leftover.containers), "container", "containers"),
        _count(len(leftover.groups), "cgroup", "cgroups"),
        _count(len(leftover.folders), "folder", "folders"),
        _count(len(leftover.namespaces), "network namespace", "network namespaces"),
    ]
    who = "a brokerlab that was killed" if leftover.pid is None else f"a brokerlab that was killed (pid {leftover.pid})"
    return f"{who} left {', '.join(part for part in parts if part) or 'only its inventory'}"


def _print(found: list[Leftover], living: int, *, is_removed: bool) -> None:
    verb = "removed" if is_removed else "would be removed"
    for leftover in found:
        say(f"{said(leftover)}; {verb}:")
        for process in leftover.processes:
            say(f"  process {process.pid} ({process.name})")
        for container in leftover.containers:
            say(f"  container {container.partition('#')[2]}")
        for path in (*leftover.mounts, *leftover.groups, *leftover.folders, *leftover.namespaces, leftover.inventory):
            say(f"  {path}")
    if not found:
        say("nothing is left of a killed brokerlab")
    if living:
        say(f"{_count(living, 'brokerlab is', 'brokerlabs are')} at work and left alone")


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}" if number else ""


def _as_json(leftover: Leftover) -> dict[str, object]:
    content = asdict(leftover)
    del content["mark"]
    return {key: _plain(value) for key, value in content.items()}


def _plain(value: object) -> object:
    if isinstance(value, tuple | list):
        return [each if isinstance(each, dict) else str(each) for each in value]
    return value if isinstance(value, int | str | None) else str(value)
