"""000's equations 7 to 11 and its projection to a month, as printed and as corrected (M-26, M-28)."""

from brokerlab.pipeline.schemas.kinds import REAL, TEXT, Among, Table, schema

EQUATION_NAMES = (
    "7", "8", "9", "10", "11", "availability", "month of 100000 a day", "month of 218772 a day", "hours of a month",
)  # fmt: skip

EQUATIONS = schema(
    run_id=TEXT,
    cell=TEXT,
    equation=TEXT,  # of paper 000, or what follows from one
    seen_by=TEXT,  # captures | clients | ledger: who counted what it is made of
    as_printed=REAL,
    unit_printed=TEXT,
    corrected=REAL,
    unit=TEXT,
)

TABLE = Table(EQUATIONS, grain=("run_id", "equation"), order=("run_id", Among("equation", EQUATION_NAMES)))
