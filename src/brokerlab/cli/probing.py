"""`brokerlab brokers probe`: holds one broker against the specification of MQTT, and shows what it did."""

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from json import dumps
from pathlib import Path
from typing import Annotated, Any

import typer

from brokerlab.brokers.registry import driver
from brokerlab.cli.probing_ensemble import Probed, probe_ensemble
from brokerlab.cli.terminal import Columns, heading, say, table, warn
from brokerlab.errors import ExitCode, RunError, UserError
from brokerlab.lab.probe.check import Finding
from brokerlab.lab.probe.checks import chosen
from brokerlab.lab.probe.runner import probe as run_probe
from brokerlab.lab.probe.target import Target, WayIn, opened, tls_context
from brokerlab.lab.probe.values import Result
from brokerlab.load.packets import LEVELS
from brokerlab.record.directory import open_results
from brokerlab.record.probes import CONFORMANCE, keep_probe
from brokerlab.study.problems import RuleError
from brokerlab.study.quantity import read_bytes

_LARGEST = "8 MiB"
_FEW_NODES = 3
_BY_WEIGHT = (ExitCode.CHECK_FAILED, ExitCode.UNKNOWN, ExitCode.VALID)
_VARIABLE = "BROKERLAB_PASSWORD"  # of the environment: a command line is seen by all
_LARGEST_THAT_FITS = 268_000_000  # of the 268,435,455 bytes that may follow a fixed header, less topic and the like
_TOPICS = {
    "connect": "Connecting",
    "keepalive": "Keep-alive",
    "qos": "Quality of service, on the wire",
    "order": "Order of messages",
    "subscribe": "Subscriptions",
    "wildcard": "Wildcards",
    "topic": "Topics",
    "share": "Shared subscriptions",
    "retained": "Retained messages",
    "will": "Wills",
    "session": "Sessions",
    "payload": "Payloads",
    "limit": "Limits that are told",
    "alias": "Topic aliases",
    "property": "Properties of messages",
    "reason": "Reason codes",
    "malformed": "Malformed packets, each followed by a new client",
}


def probe(
    names: Annotated[
        list[str],
        typer.Argument(metavar="NAME|ADDRESS...", help="Brokers that are started here, or host:port of somebody's."),
    ],
    only: Annotated[
        list[str] | None, typer.Option("--only", metavar="GROUP", help="Only this group of checks; may be repeated.")
    ] = None,
    evidence: Annotated[
        bool, typer.Option("--evidence", help="The packets of every check, also of those kept.")
    ] = False,
    largest: Annotated[
        str, typer.Option("--largest", metavar="SIZE", help="Where the search for the largest payload ends.")
    ] = _LARGEST,
    tls: Annotated[bool, typer.Option("--tls", help="Somebody's broker speaks TLS.")] = False,
    authority: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Who signed its certificate (PEM); otherwise the system's.")
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A client certificate with its key (PEM).")
    ] = None,
    user: Annotated[
        str | None, typer.Option(metavar="NAME", help=f"A user; the password is read from {_VARIABLE}.")
    ] = None,
    nodes: Annotated[
        int | None, typer.Option("--nodes", min=2, max=20, help="What crosses between so many nodes, instead.")
    ] = None,
    join: Annotated[
        str | None, typer.Option("--join", metavar="cluster|bridge", help="How they are joined; cluster if it can.")
    ] = None,
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="DIR", help="Keep it with the results in DIR, for their report.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="The same as JSON, with all evidence.")] = False,
) -> ExitCode:
    """Hold a broker against the specification of MQTT 3.1.1 and 5.0, and in a few points of 3.1.

    Every check rests on a section of it and ends as kept, broken, not supported or unknown, with the packets as seen.
    The exit code is 0 if nothing is broken or unknown, 1 if something is broken, 2 if something is unknown.

    With --nodes an ensemble of it is started, and what crosses from node to node is told; no specification says what
    must. With --keep the report of a study beside paper 001 shows what was found (its Table I).
    """
    if keep is not None and only:
        raise UserError("--keep wants all checks", hint="leave --only out")
    way_in = _way_in(tls=tls, authority=authority, certificate=certificate, user=user)
    folder = _folder(keep, names)
    wanted = _Wanted(only or [], _size(largest), way_in, with_evidence=evidence, as_json=json, keep=folder)
    is_ensemble = nodes is not None or join is not None

    def probed(name: str) -> Probed:
        if is_ensemble:
            return probe_ensemble(name, nodes=nodes or _FEW_NODES, join=join, as_json=json, keep=folder)
        return _probe_one(name, wanted)

    found = [_told_if_failed(name, probed) if len(names) > 1 else probed(name) for name in names]
    if json:
        contents = [each.content for each in found]
        say(dumps(contents if len(names) > 1 else contents[0], indent=2))
    codes = {each.code for each in found}
    return next(code for code in _BY_WEIGHT if code in codes)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What was asked for, whichever broker it is."""

    only: list[str]
    largest_bytes: int
    way_in: WayIn | None
    with_evidence: bool
    as_json: bool
    keep: Path | None


def _folder(keep: Path | None, names: Sequence[str]) -> Path | None:
    """Where probes are kept; those of somebody's broker belong to no driver, which the report would look for."""
    if keep is None:
        return None
    for name in names:
        driver(name)
    return open_results(keep).probes


def _told_if_failed(name: str, probed: Callable[[str], Probed]) -> Probed:
    """One of several that fails does not keep the others from being probed."""
    try:
        return probed(name)
    except RunError as problem:
        warn(f"probe: {name}: {problem.message}")
        return Probed(ExitCode.CHECK_FAILED, {"broker": name, "failed": problem.message})


def _probe_one(name: str, wanted: _Wanted) -> Probed:
    checks = chosen(wanted.only)
    began = time.monotonic()
    with opened(name, largest_bytes=wanted.largest_bytes, way_in=wanted.way_in) as target:
        warn(f"probe: {len(checks) + 1} checks on {_title(target)}")
        found = run_probe(target.place, checks, watch=_Progress(), renew=target.renew)
    seconds = time.monotonic() - began
    content = _as_json(target, found, seconds)
    if wanted.keep is not None:
        keep_probe(wanted.keep, name, CONFORMANCE, content)
    if not wanted.as_json:
        _print(target, found, seconds, with_evidence=wanted.with_evidence)
    return Probed(_exit_code(found), content)


def _way_in(*, tls: bool, authority: Path | None, certificate: Path | None, user: str | None) -> WayIn | None:
    if not tls and (authority or certificate):
        raise UserError("--authority and --certificate are of TLS", hint="add --tls")
    if not tls and user is None:
        return None
    password = os.environ.get(_VARIABLE)
    context = tls_context(authority, certificate) if tls else None
    return WayIn(context, user, password.encode() if user is not None and password is not None else None)


class _Progress:
    """How many checks are done: one line that is drawn again on a terminal, a line for each quarter elsewhere."""

    def __init__(self) -> None:
        self._quarters = 0

    def __call__(self, done: int, total: int) -> None:
        if sys.stderr.isatty():
            ends = "\r\033[K" if done == total else ""
            print(f"\rprobe: {done} of {total}{ends}", end="", file=sys.stderr, flush=True)
        elif (quarters := 4 * done // total) > self._quarters:
            self._quarters = quarters
            warn(f"probe: {done} of {total}")


def _size(written: str) -> int:
    try:
        size = read_bytes(written)
    except RuleError as problem:
        raise UserError(f"--largest {written}: {problem}", hint="for example 8 MiB") from problem
    if not 1024 <= size <= _LARGEST_THAT_FITS:
        raise UserError(f"--largest {written}: between 1 KiB and 268 MB, which is where MQTT ends")
    return size


def _exit_code(found: list[Finding]) -> ExitCode:
    results = {finding.result for finding in found}
    if Result.BROKEN in results:
        return ExitCode.CHECK_FAILED
    return ExitCode.UNKNOWN if Result.UNKNOWN in results else ExitCode.VALID


def _title(target: Target) -> str:
    return f"{target.name} {target.version}".strip()


def _spoken(found: list[Finding]) -> list[str]:
    silent = {
        each.protocol
        for each in found
        if each.check.id == "connect.accepted" and each.result in (Result.UNSUPPORTED, Result.UNKNOWN)
    }
    return [protocol for protocol in LEVELS if protocol not in silent]


def _as_json(target: Target, found: list[Finding], seconds: float) -> dict[str, Any]:
    counts = Counter(str(finding.result) for finding in found)
    return {
        "broker": target.name,
        "version": target.version or None,
        "protocols": _spoken(found),
        "counts": {str(result): counts[str(result)] for result in Result},
        "seconds": round(seconds, 3),
        "findings": [
            {
                "id": each.check.id,
                "group": each.check.group,
                "title": each.check.title,
                "protocol": each.protocol,
                "section": each.section,
                "result": str(each.result),
                "reason": each.reason,
                "evidence": each.evidence,
                "seconds": round(each.seconds, 3),
            }
            for each in found
        ],
    }


def _print(target: Target, found: list[Finding], seconds: float, *, with_evidence: bool) -> None:
    for group in dict.fromkeys(finding.check.group for finding in found):
        heading(_TOPICS.get(group, group))
        _print_group([finding for finding in found if finding.check.group == group], _spoken(found))
    told = [finding for finding in found if with_evidence or finding.result is not Result.KEPT]
    if told:
        heading(
            "What was seen (> by us, < by the broker)"
            if with_evidence
            else "What is not kept (> by us, < by the broker)"
        )
    for finding in told:
        where = f"{finding.check.id}, MQTT {finding.protocol}, {_place(finding.section)}"
        say(f"{finding.result}: {where}: {finding.reason}")
        say(f"    {finding.evidence}")
    counts = Counter(finding.result for finding in found)
    say()
    say(f"{_title(target)}: {', '.join(f'{counts[result]} {result}' for result in Result)}, in {seconds:.1f} s")


def _print_group(found: list[Finding], protocols: list[str]) -> None:
    """One row a check, one column a version that the broker speaks."""
    rows = []
    for check in dict.fromkeys(finding.check.id for finding in found):
        of_check = {finding.protocol: finding for finding in found if finding.check.id == check}
        first = next(iter(of_check.values())).check
        cells = [str(of_check[each].result) if each in of_check else "-" for each in protocols]
        sections = dict.fromkeys(first.sections[LEVELS[each]] for each in protocols if LEVELS[each] in first.sections)
        rows.append((check, first.title, *cells, ", ".join(sections)))
    table(Columns(("check", "what must be so", *protocols, "section")), rows)


def _place(section: str) -> str:
    return f"section {section}" if section[0].isdecimal() else section
