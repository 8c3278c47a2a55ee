"""Foreign results as ordinary run directories: one module per format, each a reader of lines.

    a file of somebody else's tool ──► Reading (rows, what is unknown, malformed lines) ──► runs/<cell>/<repetition>/

A source tells less than our own clients do. What it does not tell is null in the raw files and named in the section
`source` of the manifest (pipeline/origin.py), so that no table shows a zero for it.
"""
