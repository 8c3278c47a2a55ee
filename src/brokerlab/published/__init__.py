"""What the five papers print: their tables as files, with what stands behind them and notes of suspect values.

A table is called PAPER/TABLE, such as 002/table6. Values stay text as printed, because some are bounds (<10).
"""
