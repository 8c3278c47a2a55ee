"""The manifest of a run: a JSON object that only ever grows, one section per step of the run.

Sections, in the order in which they are written:

    format      version of the run directory
    run         id, study, cell, repetition, order, seed, levels
    workload    the resolved workload of the cell
    guards      the limits beyond which the run is invalid
    ledger      {"late_s": a first arrival later than this after its intended time counts as late}
    machine     cores, memory, kernel, Python, host's load before the run
    versions    brokerlab and the libraries that touch the numbers
    calibration {"value": the meter against the null broker (brokerlab calibrate) or null, "reason": why null};
                where clients do something that no ceiling is measured of, "without" has the reason by what they do
    broker      name, driver, version, preset, command, address
    clock       name of the clock, and one reading of it beside the wall clock
    network     on any topology but loopback: topology, hosts, cables and what they are made of, ways, pairs with
                their round trips, links [{link, kind, claimed and measured rtt, delay, rate, loss; problems}]
    proof       what readiness was proved with: {"publications": n, "seconds": s}
    clients     publishers [{publisher, topic}], subscribers [{subscriber, filter, granted_qos}];
                in the role echo also publishers' reply and devices [{device, filter, topic, granted_qos}];
                probe {publisher, topic, granted_qos}, where there is one
    besides     what we published that is no load (probes, answers, control messages, what wipes out retained ones when
                publishers with wills leave): publications, payload_bytes, qos
    phases      [{name, start_ns, end_ns}]; trials of a search have their rate_per_s too
    search      of a search: its trials with what was seen and decided, and the rate that was found with its interval
    captures    [{tap, file, place, ports, dropped, ...}]: files below traffic/, where and of which ports they were
                captured, and how many frames the kernel dropped
    meter       what the generator says of itself: workers, schedule and receive lag, window, cores
    table       of filters beside the load's: filled, changed, refused, unsent, filled anew, standing at the end
    probes      of the latency probe's messages: published in the measure phase, came, lost; unsent of all that were due
    carrier     of userspace links: what their process used and did with the frames of each; null where there is none
    captures    [{tap, file, place, ports, frames, dropped, beyond_limit}], where the study asks for them
    start_ms    of a start by control messages: command_to_arrival, command_to_first_message
    surroundings  what the machine did: swap, CPU steal, clock step, socket backlog
    verdict     {"value": valid | invalid | collapsed, "reasons": [...]}; always last

A run whose manifest has no verdict was cut off.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from brokerlab.errors import UserError
from brokerlab.record.schemas import FORMAT_VERSION

Json = dict[str, Any]


class Manifest:
    """Writes the sections of one manifest; each section is written once and never changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._sections: Json = {"format": FORMAT_VERSION}

    def add(self, section: str, content: object) -> None:
        """Adds a section and puts the longer manifest in the place of the shorter one, atomically."""
        if section in self._sections:
            raise ValueError(f"manifest section {section!r} is already written")
        self._sections[section] = content
        replace_json(self._path, self._sections)

    @property
    def sections(self) -> Mapping[str, Any]:
        return self._sections


def replace_json(path: Path, content: object) -> None:
    """Writes JSON so that a reader sees the old file or the new one, never a part."""
    beside = path.with_name(path.name + ".part")
    with beside.open("w", encoding="utf-8") as file:
        file.write(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def read_manifest(path: Path) -> Json:
    """The manifest at `path`; a newer format or broken JSON is refused with the file's name."""
    try:
        content: Json = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise UserError(f"{path}: the manifest cannot be read: {problem}") from problem
    version = content.get("format") if isinstance(content, dict) else None
    if not isinstance(version, int):
        raise UserError(f"{path}: not a manifest of brokerlab: it has no format version")
    if version > FORMAT_VERSION:
        raise UserError(
            f"{path}: format {version} is newer than this brokerlab reads ({FORMAT_VERSION})",
            hint="install a newer brokerlab",
        )
    return content
