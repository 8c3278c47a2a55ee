"""The command line: one file a command; sees every other part, and is imported by none."""
