"""The runs."""

from brokerlab.pipeline.schemas.kinds import Table, schema
from brokerlab.pipeline.schemas.manifests import ABOUT_A_RUN

RUNS = schema(**ABOUT_A_RUN)

TABLE = Table(RUNS, grain=("run_id",), order=("order", "position"))
