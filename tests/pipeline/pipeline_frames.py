"""Literal frames of what tables are made of."""

from collections.abc import Mapping
from importlib import import_module

from pipeline_runs import S

from brokerlab.pipeline.schemas.families import FAMILIES, PARTIALS
from brokerlab.pipeline.schemas.manifests import MANIFESTS
from brokerlab.pipeline.tables import TABLE_NAMES
from brokerlab.pipeline.transforms import Analysis


def partials_from(spark, *rows):
    """Rows as (run, family, columns); columns that are not given are null."""
    empty = dict.fromkeys(FAMILIES)
    content = [
        {"run_id": run, **empty, family: {**dict.fromkeys(FAMILIES[family].names), **columns}}
        for run, family, columns in rows
    ]
    return spark.createDataFrame(content, PARTIALS)


def runs_from(spark, *rows):
    defaults = {
        **dict.fromkeys(MANIFESTS.names),
        **{"cell": "c", "verdict": "valid", "reasons": [], "qos": 1, "is_cut_off": False, "other_publications": 0},
        **{"measure_start_ns": 2 * S, "measure_end_ns": 4 * S, "levels": {}, "counters": []},
    }
    asked = ({"qos_asked": row.get("qos", defaults["qos"])} for row in rows)
    return spark.createDataFrame([{**defaults, **own, **row} for own, row in zip(asked, rows, strict=True)], MANIFESTS)


def flow(**counts):
    zero = dict.fromkeys(FAMILIES["flow"].names, 0)
    return {**zero, "qos_granted": 1, "last_received_ns": None, "is_crossing": None, "in_doubt": False, **counts}


class Tables(Mapping):
    """The tables of an analysis that writes nothing: each is made when another asks for it first."""

    def __init__(self, partials, runs):
        filled = frozenset([*FAMILIES, *MANIFESTS.names])
        self._analysis = Analysis(partials, runs, runs, self, filled, confidence_percent=95, most_runs=5)
        self._made = {}

    def __getitem__(self, name):
        if name not in self._made:
            self._made[name] = import_module(f"brokerlab.pipeline.transforms.{name}").make(self._analysis)
        return self._made[name]

    def __iter__(self):
        return iter(TABLE_NAMES)

    def __len__(self):
        return len(TABLE_NAMES)


def made_of(name, partials, runs):
    """The table of that name."""
    return Tables(partials, runs)[name]
