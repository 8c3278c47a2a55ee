"""Tables of captures from what the walk over a capture comes to: however its rows lie, and without any."""

import pyarrow as pa
import pytest
from capture_files import pcap, write
from pipeline_runs import RunBuilder, new_study
from pyspark.testing import assertDataFrameEqual, assertSchemaEqual
from test_capture_tables import captures, ten_messages

from brokerlab.pipeline.capture.container import parts_of
from brokerlab.pipeline.capture.messages import COLUMNS, legs_of
from brokerlab.pipeline.capture.sinks import CountingSink
from brokerlab.pipeline.capture.source import CaptureFile, read_part
from brokerlab.pipeline.capture.taps import taps_of
from brokerlab.pipeline.capture.walk import Walk, numbers
from brokerlab.pipeline.manifests import manifests_table, read_facts
from brokerlab.pipeline.schemas import TABLES, arrow_schema
from brokerlab.pipeline.schemas.captured import FOLLOWED, MATCHED, TAPS
from brokerlab.pipeline.schemas.manifests import MANIFESTS
from brokerlab.pipeline.transforms.captures import captures_table
from brokerlab.pipeline.transforms.legs import legs_table
from brokerlab.pipeline.transforms.traffic import traffic_table

pytestmark = pytest.mark.pipeline

MAKE = {
    "traffic": lambda frames: traffic_table(frames["followed"], runs=frames["runs"]),
    "legs": lambda frames: legs_table(frames["matched"], runs=frames["runs"]),
    "captures": lambda frames: captures_table(frames["followed"], taps=frames["taps"], runs=frames["runs"]),
}
SCHEMAS = {"followed": FOLLOWED, "matched": MATCHED, "taps": TAPS, "runs": MANIFESTS}


def followed_of(tap):
    """What the tasks of Spark do, in this process."""
    file = CaptureFile(tap.path, (1883,))
    parts = parts_of(tap.path, split_bytes=600)
    read = pa.Table.from_batches([batch for part in parts for batch in read_part(file, part, None)])
    rows = read.sort_by([(name, "ascending") for name in ("path", "client", "broker", "number")])
    for name, value in {**tap.row(), "buckets": 2}.items():
        if name != "path":
            rows = rows.append_column(name, pa.array([value] * rows.num_rows))
    walk = Walk(CountingSink())
    (batch,) = rows.combine_chunks().to_batches()
    return pa.concat_tables([*walk.take(batch), *walk.end()])


@pytest.fixture(scope="module")
def frames(tmp_path_factory, spark):
    study = new_study(tmp_path_factory.mktemp("walked"))
    run = RunBuilder(more=captures("a.pcap", place="lo", ports=[1883], dropped=2)).write(study)
    write(run.path / "traffic" / "a.pcap", pcap(ten_messages()))
    facts = read_facts(run)
    (tap,) = taps_of(facts)
    followed = followed_of(tap)
    packed = [row["packed"] for row in followed.column("messages").to_pylist() if row]
    legs = [leg for blob in packed for leg in legs_of({tap.tap: numbers(pa.scalar(blob), COLUMNS)})]
    tables = {
        "followed": followed,
        "matched": pa.Table.from_pylist([{"run_id": tap.run_id, **leg} for leg in legs], schema=arrow_schema(MATCHED)),
        "taps": pa.Table.from_pylist([tap.row()], schema=arrow_schema(TAPS)),
        "runs": manifests_table([facts]),
    }
    return {name: spark.createDataFrame(table, schema=SCHEMAS[name]) for name, table in tables.items()}


@pytest.mark.parametrize("name", MAKE)
def test_reordered_and_repartitioned_input_gives_the_same(frames, name):
    """B-21: ten messages over many parts of a file, in two buckets."""
    made = MAKE[name](frames)
    shuffled = {key: frame.repartition(3).sortWithinPartitions("run_id") for key, frame in frames.items()}

    assertSchemaEqual(made.schema, TABLES[name].columns)
    rows = made.select(*TABLES[name].grain).collect()
    assert len(rows) == len(set(rows)) > 0
    assertDataFrameEqual(MAKE[name](shuffled), made)


@pytest.mark.parametrize("name", MAKE)
def test_no_input_no_rows(spark, name):
    empty = {key: spark.createDataFrame([], schema) for key, schema in SCHEMAS.items()}

    assert MAKE[name](empty).collect() == []
