"""A node of a cluster is killed in a run: the table faults says what the messages themselves say (F-06, F-07).

Three nodes at sites of their own, clients at each; what is lost is counted here once more, from the raw files alone.
"""

import json
import os
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from broker_rig import CHOICE, chosen_drivers
from ensemble_rig import Silent

from brokerlab.brokers.base import Missing
from brokerlab.brokers.registry import DRIVERS
from brokerlab.lab.run import make_run
from brokerlab.pipeline.jobs import analyze
from brokerlab.pipeline.reduce.faults import ON_THE_WAY_NS
from brokerlab.pipeline.session import open_session
from brokerlab.pipeline.tables import read_table
from brokerlab.record.directory import StudyDirectory
from brokerlab.study.facts import DriverFacts
from brokerlab.study.file import read_study
from brokerlab.study.plan import make_plan
from open_guards import OPEN

NODES, CLIENTS = 3, 6
KILLED = [name for name in ("nats", "fluxmq", "artemis", "ejabberd", "rabbitmq@4.0.5") if name in chosen_drivers()]
STUDY = """\
brokerlab: 1
study: killed
goals:
  question: What does the loss of a node cost?
system:
  brokers:
    {name}: {{driver: "{driver}"}}
  ensemble: {{nodes: 3, join: cluster}}
metrics: [latency, delivery]
scenario:
  workload:
    publishers: 6
    subscribers: 6
    topics: {{publish: "plant/{{publisher}}", subscribe: "plant/#"}}
    schedule: {{rate: 10/s}}
  placement: {{publishers: round-robin, subscribers: round-robin}}
  variables:
    broker: [{name}]
    qos: {qos}
  topology: {{shape: mesh, sites: 3}}
  faults:
    - {{do: kill, node: 2, at: 1 s}}
deploy:
  repetitions: 1
  phases: {{warmup: 0.5 s, measure: 10 s, drain: 6 s}}
"""

pytestmark = [
    pytest.mark.brokers,
    pytest.mark.skipif(CHOICE not in os.environ, reason="nine runs and an analysis: make test-brokers"),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root makes network namespaces"),
    pytest.mark.skipif(not KILLED, reason="none of these brokers was chosen"),
]


@pytest.fixture(scope="module")
def struck(tmp_path_factory):
    """A run of each broker at each QoS that it has, and their tables."""
    results = StudyDirectory(tmp_path_factory.mktemp("struck"))
    for name in KILLED:
        if isinstance(DRIVERS[name].find(), Missing):
            continue
        levels = [int(qos) for qos in DRIVERS[name].abilities.qos]
        path = results.path / "study.yaml"
        path.write_text(STUDY.format(name=name.partition("@")[0], driver=name, qos=levels), encoding="utf-8")
        study = read_study(path, settings=(), drivers={name: DriverFacts(has_clusters=True)})
        study = replace(study, analysis=OPEN)
        for run in make_plan(study, missing={}).runs:
            make_run(run, study, results.run(run.id), watcher=Silent())
    spark = open_session(app="brokerlab-contract")
    try:
        analyze(spark, results)
    finally:
        spark.stop()
    return results


def raw(directory, kind, columns):
    files = sorted((directory.path / kind).glob("*.parquet"))
    return pa.concat_tables([pq.read_table(file, columns=columns) for file in files]).to_pylist()


def counted(directory, at_ns):
    """Lost before the fault and since, as the raw files have it: everybody hears everything."""
    published = {
        (row["publisher"], row["seq"]): row["intended_ns"]
        for row in raw(directory, "publications", ["publisher", "seq", "intended_ns"])
    }
    came = {
        (row["subscriber"], row["publisher"], row["seq"])
        for row in raw(directory, "deliveries", ["subscriber", "publisher", "seq"])
    }
    lost = [
        intended_ns + ON_THE_WAY_NS >= at_ns
        for key, intended_ns in published.items()
        for subscriber in range(CLIENTS)
        if (subscriber, *key) not in came
    ]
    return lost.count(False), lost.count(True)


def rows_of(results, name, run_id):
    return [row for row in read_table(results, name).to_pylist() if row["run_id"] == run_id]


def test_lost_is_what_the_raw_files_say(struck):
    for directory in struck.runs():
        manifest = json.loads(directory.manifest_path.read_text())
        assert manifest["verdict"]["value"] == "valid", (directory.path, manifest["verdict"])
        run_id = manifest["run"]["id"]
        (fault,) = manifest["faults"]
        before, kill = rows_of(struck, "faults", run_id)
        assert (before["lost"], kill["lost"]) == counted(directory, fault["at_ns"]), directory.path


def test_rows_sum_to_the_ledger(struck):
    for directory in struck.runs():
        run_id = json.loads(directory.manifest_path.read_text())["run"]["id"]
        faults, (ledger,) = rows_of(struck, "faults", run_id), rows_of(struck, "delivery", run_id)
        for name in ("expected", "delivered", "lost", "duplicated"):
            assert sum(row[name] for row in faults) == ledger[name], (directory.path, name)


def test_subscribers_of_the_dead_node_miss_what_the_others_get(struck):
    """A third of the subscribers was there and does not come back; the others' own messages go on."""
    for directory in struck.runs():
        run_id = json.loads(directory.manifest_path.read_text())["run"]["id"]
        before, kill = rows_of(struck, "faults", run_id)
        assert kill["kind"] == "kill"
        assert kill["connections_lost"] >= 2 * CLIENTS // NODES
        assert kill["lost"] == kill["lost_local"] + kill["lost_crossing"] > 0, directory.path
        assert kill["delivered"] > 0, directory.path
        assert before["delivered"] > 0, directory.path
