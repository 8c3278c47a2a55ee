"""A table of subscriptions beside the load, through whole runs: it is there, it changes, what is refused is told."""

import time

import pyarrow.dataset as ds
import pytest
from broker_rig import HOST, running

from brokerlab.brokers.base import Missing
from brokerlab.brokers.registry import DRIVERS, driver
from brokerlab.cli.studies import _facts
from brokerlab.lab.run import make_run
from brokerlab.lab.watching import Watcher
from brokerlab.load.client import Client as Speaker
from brokerlab.load.crew import Crew
from brokerlab.load.spec import Client, Go, WorkerSpec
from brokerlab.pipeline.manifest_row import Phase
from brokerlab.pipeline.reduce.sessions import read_sessions
from brokerlab.record.directory import RunDirectory
from brokerlab.record.manifest import read_manifest
from brokerlab.study.file import read_study
from brokerlab.study.plan import make_plan
from brokerlab.study.table import FilterTable
from brokerlab.study.values import Workload
from open_guards import OPEN_TEXT

pytestmark = pytest.mark.brokers

STUDY = (
    """\
brokerlab: 1
study: table
goals: {{question: What does a table cost?}}
system: {{brokers: {{b: {broker}}}}}
metrics: [latency, sessions]
scenario:
  workload: {workload}
deploy: {{repetitions: 1, phases: {{warmup: 0.5 s, measure: 1 s, drain: 20 s}}}}
"""
    + OPEN_TEXT
)


class Nobody(Watcher):
    def phase_started(self, name, seconds):
        pass


def run(folder, *, broker, workload):
    """(verdict, manifest, rows of the sessions table by event) of one run."""
    file = folder / "study.yaml"
    file.write_text(STUDY.format(broker=broker, workload=workload))
    study = read_study(file, drivers={name: _facts(each, each.find()) for name, each in DRIVERS.items()})
    directory = RunDirectory(folder / "run")
    verdict = make_run(make_plan(study, missing={}).runs[0], study, directory, watcher=Nobody())
    manifest = read_manifest(directory.manifest_path)
    phases = [Phase(each["name"], each["start_ns"], each["end_ns"]) for each in manifest["phases"]]
    files = [str(path) for path in sorted(directory.raw("sessions").glob("*.parquet"))]
    return verdict, manifest, {row["event"]: row for row in read_sessions(files, phases)}


def need_mosquitto():
    if isinstance(found := driver("mosquitto").find(), Missing):
        pytest.skip(found.reason)
    return driver("mosquitto")


@pytest.mark.parametrize(("kind", "protocol"), [("literal", "3.1.1"), ("wildcard", "5.0")])
def test_whole_run_with_a_table_that_changes(tmp_path, kind, protocol):
    need_mosquitto()
    table = f"{{table: 3007, kind: {kind}, churn: 50/s, clients: 4}}"
    users = "{user: 'device-{client}', password: secret}"
    workload = f"{{schedule: {{rate: 100/s}}, subscriptions: {table}, protocol: '{protocol}', credentials: {users}}}"

    verdict, manifest, events = run(tmp_path, broker="{driver: mosquitto}", workload=workload)

    assert verdict.value == "valid", verdict.reasons
    told = manifest["table"]
    assert (told["filters"], told["filled"], told["kind"], told["clients"]) == (3007, 3007, kind, 4)
    assert told["changes"] == {"subscribe": 38, "unsubscribe": 37}  # 75 in a second and a half
    assert told["standing"] == 3008
    assert told["refused"] == {"fill": {}, "subscribe": {}, "unsubscribe": {}}
    assert (told["unsent"], told["unanswered"], told["unexpected"]) == (0, 0, 0)
    assert told["filled_per_s"] > 0
    assert told["schedule_lag_ms"]["max"] >= told["schedule_lag_ms"]["p50"] > 0
    workers = {each["node"]: each for each in manifest["meter"]["workers"]}
    assert workers["filters/0"]["cpu_percent"] > 0
    assert (events["fill"]["n"], events["subscribe"]["n"], events["unsubscribe"]["n"]) == (8, 38, 37)
    assert all(events[each]["failures"] == 0 for each in ("fill", "subscribe", "unsubscribe"))
    assert 0 < events["subscribe"]["p50_ns"] <= events["subscribe"]["max_ns"]
    deliveries = ds.dataset(RunDirectory(tmp_path / "run").raw("deliveries"), format="parquet").to_table()
    assert deliveries.num_rows == 150


def test_filters_are_there_until_they_are_taken_away(tmp_path):
    """Messages on topics of the table reach the worker, which counts them: number 3 comes for number 0."""
    workload = Workload(subscriptions=FilterTable(table=3, churn_per_s=4.0, clients=1))
    with running(need_mosquitto(), tmp_path / "broker") as broker, Speaker(HOST, broker.port) as speaker:
        holder = Client(0, "holder", "own")
        spec = WorkerSpec("filters/0", 0, HOST, broker.port, (holder,), workload, 1.0, 1, tmp_path / "run")
        with Crew([spec]) as crew:
            crew.connect(timeout_s=20)
            crew.fill(timeout_s=20)
            speaker.publish("own/brokerlab-table-0-0")
            speaker.publish("own/brokerlab-table-0-3")
            speaker.subscribe("own/x", 0)  # when its answer is here the broker has seen what was published before it
            for number in (1, 2):  # two schedules of one change each: the second goes on where the first one ended
                start_ns = time.monotonic_ns()
                crew.go(Go(start_ns, start_ns, start_ns + 250_000_000, number=number))
                time.sleep(0.4)
                crew.stock()  # the worker has passed the end
            time.sleep(0.5)
            speaker.publish("own/brokerlab-table-0-0")
            for number in (1, 2, 3):
                speaker.publish(f"own/brokerlab-table-0-{number}")
            speaker.subscribe("own/x", 0)
            crew.stock()
            facts = crew.stop()["filters/0"].table

    assert facts.unexpected == 1 + 3
    assert facts.standing == 3


def test_what_a_broker_refuses_is_stated_exactly(tmp_path):
    """Its SUBSCRIBEs: 1 the whole table, 2 the subscriber's, then a change each; messages 5 and 6 go to everybody."""
    script = "{driver: scripted, options: {refuse_subscription: [1, 4, 6], misroute: [5, 6]}}"
    workload = "{schedule: {rate: 50/s}, subscriptions: {table: 11, churn: 20/s, clients: 1}}"

    verdict, manifest, events = run(tmp_path, broker=script, workload=workload)

    told = manifest["table"]
    assert told["refused"] == {"fill": {"128": 11}, "subscribe": {"128": 2}, "unsubscribe": {}}
    assert told["filled"] == 0
    assert told["filled_per_s"] is None
    assert told["changes"] == {"subscribe": 15, "unsubscribe": 15}
    assert told["unexpected"] == 2
    assert {each: (events[each]["n"], events[each]["failures"]) for each in ("fill", "subscribe", "unsubscribe")} == {
        "fill": (1, 1), "subscribe": (15, 2), "unsubscribe": (15, 0),
    }  # fmt: skip
    assert verdict.value == "collapsed"
    assert verdict.reasons == (
        "the broker refused to fill 11 filters of its table",
        "the broker refused to subscribe 2 filters of its table",
        "2 messages came by filters that match none of the load's topics",
    )
