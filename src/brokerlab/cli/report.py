"""`brokerlab report`: report.html from the tables."""

from brokerlab.cli.known_drivers import known_drivers
from brokerlab.cli.studies import ResultsArgument
from brokerlab.cli.terminal import say
from brokerlab.record.directory import open_results


def report(directory: ResultsArgument) -> None:
    """Write DIR/report.html from the tables of DIR.

    It is one file that opens without a network.
    """
    # The figures' library takes a while to load.
    from brokerlab.report.quality_report import write_quality_report  # noqa: PLC0415
    from brokerlab.report.report import write_report  # noqa: PLC0415

    results = open_results(directory)
    if results.table("quality_scores").is_dir():
        say(f"report: {write_quality_report(results)}")
    else:
        say(f"report: {write_report(results, drivers=known_drivers())}")
