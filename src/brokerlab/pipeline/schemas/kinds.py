"""The kinds of columns, and what is fixed of a table: its columns, its grain, the order of its rows.

Fields are nullable throughout, because Spark takes everything that it reads from files as nullable.
"""

from dataclasses import dataclass

from pyspark.sql import types as T

TEXT, INT, LONG, REAL, BOOL = T.StringType(), T.IntegerType(), T.LongType(), T.DoubleType(), T.BooleanType()
TEXTS = T.ArrayType(TEXT)
TEXT_BY_TEXT = T.MapType(TEXT, TEXT)
REAL_BY_TEXT = T.MapType(TEXT, REAL)


def schema(**fields: T.DataType) -> T.StructType:
    return T.StructType([T.StructField(name, kind) for name, kind in fields.items()])


@dataclass(frozen=True, slots=True)
class Among:
    """Rows in the order in which a list has the values of a column; values that are not in it come first."""

    column: str
    values: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """One table on disk."""

    columns: T.StructType
    grain: tuple[str, ...]  # identifies a row; together unique and, but for qos_granted, never null
    order: tuple[str | Among, ...]  # of the rows; "position" is the place of their run or cell
