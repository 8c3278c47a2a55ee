"""From run directories to tables, on Spark.

    run directories ──► reduce ──► partials ──► transforms ──► tables/<name>/
                        (NumPy, inside Spark's tasks)          (read again by tables.py, without Spark)

Importing this package starts nothing and loads no Spark; `tables` needs pyarrow only.
"""
