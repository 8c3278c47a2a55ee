"""The lab: opens what a cell needs, walks the phases of a run, samples, and closes everything."""
