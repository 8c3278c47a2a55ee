"""Clients beside the load, through whole runs: what befalls devices and probes is told."""

import pytest

from brokerlab.brokers.registry import DRIVERS
from brokerlab.cli.studies import _facts
from brokerlab.lab.run import make_run
from brokerlab.lab.watching import Watcher
from brokerlab.record.directory import RunDirectory
from brokerlab.study.file import read_study
from brokerlab.study.plan import make_plan
from open_guards import OPEN_TEXT

pytestmark = pytest.mark.brokers

STUDY = (
    """\
brokerlab: 1
study: besides
goals: {{question: What befalls those beside the load?}}
system: {{brokers: {{b: {broker}}}}}
metrics: [latency, delivery]
scenario:
  workload: {workload}
deploy: {{repetitions: 1, phases: {{warmup: 0.2 s, measure: 0.5 s, drain: 1 s}}}}
"""
    + OPEN_TEXT
)


class Nobody(Watcher):
    def phase_started(self, name, seconds):
        pass


def run(folder, *, broker, workload):
    """(verdict, manifest) of one run."""
    file = folder / "study.yaml"
    file.write_text(STUDY.format(broker=broker, workload=workload))
    study = read_study(file, drivers={name: _facts(each, each.find()) for name, each in DRIVERS.items()})
    directory = RunDirectory(folder / "run")
    verdict = make_run(make_plan(study, missing={}).runs[0], study, directory, watcher=Nobody())
    return verdict, directory.manifest()


def test_a_device_that_was_refused_its_subscription_collapses_the_run(tmp_path):
    """Of three SUBSCRIBEs, in an order that nobody knows, one is a subscriber's and two are devices'."""
    script = "{driver: scripted, options: {refuse_subscription: [1, 2, 3]}}"
    workload = "{role: echo, publishers: 2, qos: 1, schedule: {rate: 20/s}}"

    verdict, _ = run(tmp_path, broker=script, workload=workload)

    assert verdict.value == "collapsed"
    assert verdict.reasons[:2] == (
        "the broker refused the subscriptions of 1 subscribers",
        "the broker refused the subscriptions of 2 devices",
    )
