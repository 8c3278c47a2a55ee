"""Subscribers that pause by plan, through whole runs: what they miss is the broker's doing, and the wait is no lag."""

import pyarrow.dataset as ds
import pytest

from brokerlab.brokers.base import Missing
from brokerlab.brokers.registry import DRIVERS, driver
from brokerlab.cli.studies import _facts
from brokerlab.lab.run import make_run
from brokerlab.lab.watching import Watcher
from brokerlab.record.directory import RunDirectory
from brokerlab.record.manifest import read_manifest
from brokerlab.study.file import read_study
from brokerlab.study.plan import make_plan
from open_guards import OPEN_TEXT

pytestmark = pytest.mark.brokers

STUDY = (
    """\
brokerlab: 1
study: pause
goals: {{question: What is lost?}}
system: {{brokers: {{b: {{driver: {driver}}}}}}}
metrics: [latency, delivery]
scenario:
  workload: {{schedule: {{rate: {rate}/s}}, qos: 1, payload: 300 B, subscribers: {subscribers}, pause: {pause}}}
deploy: {{repetitions: 1, phases: {{warmup: {warmup}, measure: {measure}, drain: 30 s}}}}
"""
    + OPEN_TEXT
)


class Nobody(Watcher):
    def phase_started(self, name, seconds):
        pass


def run(folder, **study):
    """(manifest, publications, deliveries) of one run."""
    file = folder / "study.yaml"
    file.write_text(STUDY.format(**{"subscribers": 1, "warmup": "0 s", "measure": "1 s"} | study))
    read = read_study(file, drivers={name: _facts(each, each.find()) for name, each in DRIVERS.items()})
    directory = RunDirectory(folder / "run")
    make_run(make_plan(read, missing={}).runs[0], read, directory, watcher=Nobody())
    rows = [
        ds.dataset(directory.raw(kind), format="parquet").to_table().to_pylist()
        for kind in ("publications", "deliveries")
    ]
    return read_manifest(directory.manifest_path), *rows


def test_what_a_patient_broker_holds_back_is_all_read_after_the_pause(tmp_path):
    """The scripted broker keeps everything; every arrival lies within the resolution that is told of it."""
    manifest, publications, deliveries = run(
        tmp_path, driver="scripted", rate=1000, subscribers=2, warmup="0.2 s", measure="3.3 s",
        pause="{after: 0.25 s, for: 1 s}",
    )  # fmt: skip

    sent_ns = {row["seq"]: row["sent_ns"] for row in publications}
    assert sorted(row["seq"] for row in deliveries) == sorted([*range(3500)] * 2)
    assert all(row["acked_ns"] is not None for row in publications)
    (measure_ns,) = [phase["start_ns"] for phase in manifest["phases"] if phase["name"] == "measure"]
    begin_ns, end_ns = measure_ns + 250_000_000, measure_ns + 1_250_000_000
    assert all(row["received_ns"] >= sent_ns[row["seq"]] for row in deliveries)
    # Those of one read share the stamp of its last byte: nobody saw when the first of them came. On a busy machine
    # the pause begins late, and what came before that was seen.
    waited = [row for row in deliveries if begin_ns + 50_000_000 < sent_ns[row["seq"]] < end_ns - 50_000_000]
    longest = max(waited, key=lambda row: row["received_ns"] - sent_ns[row["seq"]])
    assert longest["resolution_ns"] > (longest["received_ns"] - sent_ns[longest["seq"]]) / 5
    assert manifest["surroundings"]["socket_backlog_bytes"] < 100_000
    assert "receive lag" not in str(manifest["verdict"])


def test_mosquitto_acknowledges_what_its_queue_does_not_hold(tmp_path):
    """As shipped it queues 1000 messages for a client and has 20 in flight; its publisher learns of no loss."""
    if isinstance(found := driver("mosquitto").find(), Missing):
        pytest.skip(found.reason)
    _, publications, deliveries = run(tmp_path, driver="mosquitto", rate=3000, pause="{for: 2 s}")

    assert len(publications) == 3000
    assert all(row["acked_ns"] is not None for row in publications)
    assert len({row["seq"] for row in deliveries}) == len(deliveries) < 1100
