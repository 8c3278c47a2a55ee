import pytest

from brokerlab.cli.outcome import exit_code
from brokerlab.errors import ExitCode
from brokerlab.report.results import Row

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("verdicts", "contracts", "code"),
    [
        ({"a/1": "valid"}, {"a/1": "kept"}, ExitCode.VALID),
        ({"a/1": "valid", "a/2": "invalid"}, {"a/1": "kept"}, ExitCode.CHECK_FAILED),
        ({"a/1": "collapsed"}, {}, ExitCode.CHECK_FAILED),
        ({"a/1": "valid"}, {"a/1": "broken"}, ExitCode.CHECK_FAILED),
        ({"a/1": "valid", "a/2": "valid"}, {"a/1": "unknown", "a/2": "broken"}, ExitCode.CHECK_FAILED),
        ({"a/1": "valid"}, {"a/1": "unknown"}, ExitCode.UNKNOWN),
        ({}, {}, ExitCode.UNKNOWN),
        ({"a/1": "valid", "a/1.cut-1": "invalid"}, {"a/1": "kept", "a/1.cut-1": "unknown"}, ExitCode.VALID),
        ({"a/1.cut-1": "invalid", "a/2": "valid"}, {"a/2": "kept"}, ExitCode.CHECK_FAILED),
    ],
)
def test_the_exit_code_follows_from_runs_and_contracts(
    verdicts: dict[str, str], contracts: dict[str, str], code: ExitCode
) -> None:
    assert exit_code(rows(verdicts), rows(contracts)) == code


def rows(verdicts: dict[str, str]) -> list[Row]:
    return [{"run_id": run_id, "verdict": verdict} for run_id, verdict in verdicts.items()]
