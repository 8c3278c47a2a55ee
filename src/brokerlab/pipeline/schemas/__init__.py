"""Every table on disk and between jobs, once; nothing outside of this package declares a schema.

    kinds       columns' kinds, and what is fixed of a table
    manifests   between jobs: what the manifests say
    families    between jobs: what the raw files come to
    <name>      TABLE, the table of that name on disk: tables/<name>/

A new table is a file here, one of the same name in transforms/, and a line in tables.TABLE_NAMES.
The tests hold the key columns against null.
"""

from importlib import import_module

import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.pandas.types import to_arrow_schema

from brokerlab.pipeline.schemas.kinds import Table
from brokerlab.pipeline.tables import TABLE_NAMES

PIPELINE_VERSION = 11  # raised by every change that can move numbers


def arrow_schema(schema: T.StructType) -> pa.Schema:
    """The same schema for Arrow batches on their way into Spark."""
    return to_arrow_schema(schema)


def table_of(name: str) -> Table:
    """What is fixed of the table of this name."""
    table: Table = import_module(f"{__name__}.{name}").TABLE
    return table


TABLES = {name: table_of(name) for name in TABLE_NAMES}
