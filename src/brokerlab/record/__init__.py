"""The run directory: the contract between lab, which writes it, and pipeline, which reads it."""
