"""`brokerlab report`: report.html from the tables."""

from brokerlab.cli.studies import ResultsArgument
from brokerlab.cli.terminal import say
from brokerlab.record.directory import open_results


def report(directory: ResultsArgument) -> None:
    """Write DIR/report.html from the tables of DIR.

    It is one file that opens without a network.
    """
    from brokerlab.report.report import write_report  # noqa: PLC0415 - loads the figures' library

    say(f"report: {write_report(open_results(directory))}")
