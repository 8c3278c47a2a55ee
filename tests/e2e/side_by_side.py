"""Makes several runs at a time: most of a run on the scripted broker is waiting, and no test of it asserts a time."""

from concurrent.futures import ThreadPoolExecutor

from brokerlab.lab.run import make_run

AT_ONCE = 4


class Silent:
    def run_started(self, run, number, total):
        """Nobody watches a test."""

    def phase_started(self, name, seconds):
        """Nobody watches a test."""

    def run_ended(self, run, verdict, reasons, seconds):
        """Nobody watches a test."""


def make_runs_side_by_side(study, runs, results):
    """All runs of a study, into their places below `results`."""
    make_planned([(study, run) for run in runs], results)


def make_planned(planned, results):
    """Runs of any studies, each with its own, into their places below `results`."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        made = pool.map(lambda pair: make_run(pair[1], pair[0], results.run(pair[1].id), watcher=Silent()), planned)
        assert len(list(made)) == len(planned)
