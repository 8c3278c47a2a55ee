"""Transport, certificates and credentials in a study: read, refused, written back without a secret."""

import copy
import dataclasses
import json
import pickle

import pytest

from brokerlab.errors import UserError
from brokerlab.study.access import users_of
from brokerlab.study.factors import FACTORS
from brokerlab.study.file import read_study
from brokerlab.study.problems import StudyError
from brokerlab.study.secret import HIDDEN, Secret
from brokerlab.study.values import Certificates, Credentials, Factor, Transport, Workload
from brokerlab.study.written import study_yaml

CREDENTIALS = "scenario.workload.credentials"


@pytest.fixture
def read_secure(tmp_path, drivers, small):
    """Reads the small study, whose brokers have everything."""
    able = dataclasses.replace(
        drivers["amqtt"],
        transports=tuple(str(transport) for transport in Transport),
        has_credentials=True,
        has_client_certificates=True,
        has_permissions=True,
    )
    path = tmp_path / "study.yaml"
    path.write_text(small, encoding="utf-8")
    return lambda *settings: read_study(path, settings=settings, drivers={**drivers, "amqtt": able})


def rules(read, *settings):
    with pytest.raises(StudyError) as caught:
        read(*settings)
    return [(problem.key, problem.rule) for problem in caught.value.problems]


def test_transport_and_certificates_are_values_and_factors(read_secure):
    study = read_secure("scenario.workload.transport=wss", "scenario.variables.certificates=[none, shared, each]")

    assert study.scenario.workload.transport is Transport.WSS
    assert Factor("certificates", tuple(Certificates)) in study.scenario.variables
    assert FACTORS["transport"].apply(Workload(), "ws").transport is Transport.WS
    assert FACTORS["transport"].label(Transport.TLS) == "tls"
    assert FACTORS["certificates"].parse("each") is Certificates.EACH


@pytest.mark.parametrize(
    ("settings", "key", "rule"),
    [
        (["scenario.workload.transport=tlss"], "scenario.workload.transport", "unknown transport"),
        (
            ["scenario.workload.certificates=each"],
            "scenario.workload.certificates",
            "needs the transports tls or wss alone, and the study's is tcp",
        ),
        (
            ["scenario.variables.certificates=[none, each]", "scenario.variables.transport=[tls, ws]"],
            "scenario.variables.certificates[1]",
            "needs the transports tls or wss alone, and the study's is ws",
        ),
        (
            [f"{CREDENTIALS}={{user: a}}"],
            f"{CREDENTIALS}.password",
            "the key is missing; or give a file instead of both",
        ),
        (
            [f"{CREDENTIALS}={{user: 'a-{{publisher}}', password: b}}"],
            f"{CREDENTIALS}.user",
            "knows {client} alone, the number of the client",
        ),
        *(
            (
                [f"{CREDENTIALS}={{user: 'a-{{{pattern}}}', password: b}}"],
                f"{CREDENTIALS}.user",
                "knows {client} alone, the number of the client",
            )
            for pattern in ("client!z", "client!r", "client:>70000", "client:zz", "client.real")
        ),
        ([f"{CREDENTIALS}={{user: 'a:b', password: b}}"], f"{CREDENTIALS}.user", "must have no colon: brokers' "),
        ([f"{CREDENTIALS}={{user: a, password: ''}}"], f"{CREDENTIALS}.password", "must be a text of printable"),
        ([f"{CREDENTIALS}={{usr: a, password: b}}"], f"{CREDENTIALS}.usr", "unknown key"),
    ],
)
def test_what_does_not_go_together_is_refused(read_secure, settings, key, rule):
    found = rules(read_secure, *settings)

    assert any(at == key and said.startswith(rule) for at, said in found), found


def test_broker_that_cannot_do_it_is_named_with_what_it_can(read, small):
    with pytest.raises(StudyError) as caught:
        read(
            small.replace("amqtt", "nats").replace("[one, two]", "[one]"),
            "scenario.workload.transport=tls",
            "scenario.workload.certificates=each",
            f"{CREDENTIALS}={{user: u, password: p}}",
        )

    said = caught.value.message
    assert "broker one (driver nats) has no transport tls; it has tcp" in said
    assert "broker one (driver nats) has no user names" in said
    assert "broker one (driver nats) does not ask its clients for certificates" in said
    assert said.count("\n") == 2


def test_file_of_users_is_read_from_the_study_s_folder_and_must_be_long_enough(read_secure, tmp_path, monkeypatch):
    monkeypatch.setenv("SECOND", "two")
    file = tmp_path / "users.csv"
    file.write_text('user,password\nanna,"one,with comma"\nbert,env:SECOND\n')
    study = read_secure(f"{CREDENTIALS}={{file: users.csv}}")
    assert study.scenario.workload.credentials == Credentials(file=str(file))
    assert users_of(study.scenario.workload.credentials, 2) == [("anna", "one,with comma"), ("bert", "two")]

    found = rules(read_secure, f"{CREDENTIALS}={{file: users.csv}}", "scenario.variables.publishers=[1, 5]")

    assert found == [(f"{CREDENTIALS}.file", "has 2 users, but the study has 6 clients: one line for each is needed")]
    with pytest.raises(UserError, match="has 2 users, but the run has 3 clients"):
        users_of(study.scenario.workload.credentials, 3)


@pytest.mark.parametrize(("role", "needed"), [("one-way", 6), ("echo", 15), ("loop", 5), ("[loop, echo]", 15)])
def test_users_of_a_role_are_those_who_connect(read_secure, tmp_path, role, needed):
    file = tmp_path / "users.csv"
    key = "scenario.variables.role" if role.startswith("[") else "scenario.workload.role"
    settings = (f"{CREDENTIALS}={{file: users.csv}}", "scenario.workload.publishers=5", f"{key}={role}")
    file.write_text("".join(f"user-{number},x\n" for number in range(needed)))
    assert read_secure(*settings).scenario.workload.publishers == 5

    file.write_text("".join(f"user-{number},x\n" for number in range(needed - 1)))

    ((_, rule),) = rules(read_secure, *settings)
    assert rule.startswith(f"has {needed - 1} users, but the study has {needed} clients")


@pytest.mark.parametrize("head", ["", "user,password\n"])
def test_file_of_users_may_begin_with_a_byte_order_mark(tmp_path, head):
    file = tmp_path / "users.csv"
    file.write_text(f"{head}anna,a\n", encoding="utf-8-sig")

    assert users_of(Credentials(file=str(file)), 1) == [("anna", "a")]


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (None, "cannot be read: No such file"),
        ("anna\n", "line 1 of .* must be a user's name"),
        ("anna,a\nanna,b\n", "line 2 of .* has the user of line 1 again"),
        ("an:na,a\n", "line 1 of .* must be a user's name"),
        ("anna,a\nbert," + "x" * 65_536, "line 2 of .* has a text of more than 65535 B"),
    ],
)
def test_file_of_users_that_is_broken_is_refused(read_secure, tmp_path, text, rule):
    if text is not None:
        (tmp_path / "users.csv").write_text(text)

    with pytest.raises(StudyError, match=rule):
        read_secure(f"{CREDENTIALS}={{file: users.csv}}")


@pytest.mark.parametrize(
    ("written", "kept"),
    [("hunter2", HIDDEN), ("env:HOME", "env:HOME"), ("env:NOT_THERE_AT_ALL", "env:NOT_THERE_AT_ALL")],
)
def test_written_study_reads_back_equal_and_shows_no_password(read_secure, written, kept):
    study = read_secure(
        f"{CREDENTIALS}={{user: 'd-{{client}}', password: '{written}'}}", "scenario.workload.transport=tls"
    )

    text = study_yaml(study)

    assert "hunter2" not in text + repr(study)
    assert study.scenario.workload.credentials.password == kept
    assert (
        read_secure("scenario.workload.transport=tls", f"{CREDENTIALS}={{user: 'd-{{client}}', password: '{kept}'}}")
        == study
    )


def test_secret_is_shown_by_nothing_but_reveal():
    secret = Secret("hunter2")
    shown = [str(secret), repr(secret), f"{secret}", json.dumps(dataclasses.asdict(Credentials("u", secret)))]

    assert not any("hunter2" in text for text in shown)
    assert secret.reveal() == copy.deepcopy(secret).reveal() == pickle.loads(pickle.dumps(secret)).reveal() == "hunter2"
    with pytest.raises(UserError, match="left out when this study was written"):
        Secret(str(secret)).reveal()
    with pytest.raises(UserError, match="the environment has no NOT_THERE_AT_ALL"):
        Secret("env:NOT_THERE_AT_ALL").reveal()


def test_problem_of_a_password_does_not_print_it(read_secure):
    with pytest.raises(StudyError) as caught:
        read_secure(f"{CREDENTIALS}={{user: a, password: 20061989}}")

    assert "20061989" not in caught.value.message


KNOWN = 'scenario.workload.credentials={user: "u-{client}", password: x}'


def test_users_and_permissions_are_factors(read_secure):
    """F-18."""
    study = read_secure(KNOWN, "scenario.variables.permissions=[false, true]")
    assert Factor("permissions", ("off", "on")) in study.scenario.variables
    assert FACTORS["permissions"].apply(study.scenario.workload, "on").permissions

    study = read_secure(KNOWN, "scenario.variables.users=[false, true]")
    assert FACTORS["users"].apply(study.scenario.workload, "off").credentials is None
    assert FACTORS["users"].apply(study.scenario.workload, "on") == study.scenario.workload


@pytest.mark.parametrize(
    ("settings", "key", "rule"),
    [
        (["scenario.variables.users=[true]"], "scenario.variables.users[0]", "needs scenario.workload.credentials"),
        (
            ["scenario.workload.permissions=true"],
            "scenario.workload.permissions",
            "a list of topics is for known users",
        ),
        (
            [KNOWN, "scenario.variables.users=[true, false]", "scenario.workload.permissions=true"],
            "scenario.workload.permissions",
            "credentials in every cell",
        ),
    ],
)
def test_permissions_without_users_are_refused(read_secure, settings, key, rule):
    (found,) = rules(read_secure, *settings)

    assert found[0] == key
    assert rule in found[1]


def test_permissions_need_a_broker_that_has_them(drivers, tmp_path, small):
    path = tmp_path / "study.yaml"
    path.write_text(small, encoding="utf-8")
    able = dataclasses.replace(drivers["amqtt"], has_credentials=True)
    settings = (KNOWN, "scenario.workload.permissions=true")

    found = rules(lambda *_: read_study(path, settings=settings, drivers={**drivers, "amqtt": able}))
    assert any("has no list of topics" in rule for _, rule in found)
