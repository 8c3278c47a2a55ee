"""Makes several runs at a time: most of a run on the scripted broker is waiting, and no test of it asserts a time."""

from concurrent.futures import ThreadPoolExecutor

from brokerlab.lab.run import make_run

AT_ONCE = 3


class Silent:
    def run_started(self, run, number, total):
        """Nobody watches a test."""

    def phase_started(self, name, seconds):
        """Nobody watches a test."""

    def run_ended(self, run, verdict, reasons, seconds):
        """Nobody watches a test."""


def make_runs_side_by_side(study, runs, results):
    """All runs, into their places below `results`."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        made = pool.map(lambda run: make_run(run, study, results.run(run.id), watcher=Silent()), runs)
        assert len(list(made)) == len(runs)
