"""A table of filters beside the load, as a study file says it: what is read, refused and varied."""

import pytest

from brokerlab.errors import UserError
from brokerlab.study.plan import make_plan
from brokerlab.study.table import FilterKind, FilterTable
from brokerlab.study.written import study_yaml

pytestmark = pytest.mark.unit


@pytest.fixture
def with_table(small):
    """The small study with these subscriptions, variables and other keys of the workload."""

    def make(subscriptions, *, variables="", workload=""):
        key = f"subscriptions: {subscriptions}" if subscriptions else ""
        keys = ", ".join(filter(None, (key, workload)))
        text = small.replace("scenario:\n", f"scenario:\n  workload: {{{keys}}}\n")
        return text.replace("    qos: [0, 1]\n", f"    {variables}\n") if variables else text

    return make


def test_every_key_is_read_and_written_back(read, with_table):
    study = read(with_table("{table: 100000, kind: wildcard, churn: 100/s, clients: 7}"))

    table = study.scenario.workload.subscriptions
    assert table == FilterTable(table=100_000, kind=FilterKind.WILDCARD, churn_per_s=100.0, clients=7)
    assert read(study_yaml(study)) == study


def test_without_the_key_there_is_no_table(read, small):
    study = read(small)

    assert not study.scenario.workload.subscriptions.is_there
    assert "subscriptions" not in study_yaml(study)
    assert read(study_yaml(study)) == study


@pytest.mark.parametrize(
    ("variable", "field", "levels"),
    [
        ("subscriptions: [0, 10, 1000]", "table", [0, 10, 1000]),
        ("filter_kind: [literal, wildcard]", "kind", [FilterKind.LITERAL, FilterKind.WILDCARD]),
        ("churn: [10/s, 100/s]", "churn_per_s", [10.0, 100.0]),
        ("filter_clients: [1, 5]", "clients", [1, 5]),
    ],
)
def test_each_can_be_a_factor(read, with_table, variable, field, levels):
    own = "" if field == "table" else "{table: 50}"
    study = read(with_table(own, variables=variable))

    cells = [cell for cell in make_plan(study, missing={}).cells if cell.broker.name == "one"]
    assert [getattr(cell.workload.subscriptions, field) for cell in cells] == levels
    assert read(study_yaml(study)) == study


@pytest.mark.parametrize(
    ("subscriptions", "variables", "workload", "problem"),
    [
        ("{churn: 50/s}", "", "", "needs a table: write table in scenario.workload.subscriptions"),
        ("{table: 0, churn: 50/s}", "", "", "needs a table"),
        ("{kind: wildcard}", "", "", "needs a table"),
        ("", "churn: [10/s]", "qos: 0", "needs a table"),
        ("{table: 10, churn: 0/s}", "", "", "must be above 0 and at most 1000000/s; without churn leave it out"),
        ("{table: 10, churn: 50}", "", "", "churn"),
        ("{table: -1}", "", "", "must be from 0 to 10000000"),
        ("{table: 10, clients: 0}", "", "", "must be from 1 to 100000"),
        ("{table: 10, kind: wildcrad}", "", "", "wildcard"),
        ("{table: 10, rate: 5/s}", "", "", "rate"),
        ("{table: 10}", "", "topics: {publish: 'brokerlab-table-0-1'}", "must not hold brokerlab-table-"),
    ],
)
def test_mistakes_are_told(read, with_table, subscriptions, variables, workload, problem):
    with pytest.raises(UserError, match=problem):
        read(with_table(subscriptions, variables=variables, workload=workload))


def test_file_of_users_has_a_line_for_its_clients_too(read, with_table, tmp_path):
    (tmp_path / "users.csv").write_text("user,password\na,b\nc,d\ne,f\n")
    text = with_table("{table: 10, clients: 3}", workload="credentials: {file: users.csv}")

    with pytest.raises(UserError, match="has 3 users, but the study has 5 clients"):
        read(text)
