"""Roles, echo and probe in a study: what is read, what is refused, and how it is written back."""

import pytest

from brokerlab.study.values import Echo, Factor, Probe, Qos, Roles
from brokerlab.study.written import study_yaml


def with_keys(text, keys, *, variables=""):
    workload = "".join(f"    {line}\n" for line in keys)
    return text.replace("scenario:\n", f"scenario:\n  workload:\n{workload}") + variables


@pytest.mark.parametrize(
    ("keys", "value"),
    [
        (["role: loop"], {"role": Roles.LOOP}),
        (["role: echo", "echo: {qos: 2}"], {"role": Roles.ECHO, "echo": Echo(Qos(2))}),
        (["probe: {}"], {"probe": Probe(2.0, Qos(1))}),
        (["probe: {every: 500 ms, qos: 0}"], {"probe": Probe(0.5, Qos(0))}),
        (
            ["role: echo", "publishers: 3", "topics: {publish: 'a/{publisher}', reply: 'b/{publisher}'}"],
            {"publishers": 3},
        ),
    ],
)
def test_a_role_is_read_and_reads_back_equal(read, small, keys, value):
    study = read(with_keys(small, keys))

    assert {name: getattr(study.scenario.workload, name) for name in value} == value
    assert read(study_yaml(study)) == study


def test_role_and_the_qos_of_answers_are_factors(read, small):
    study = read(with_keys(small, ["protocol: 3.1.1"], variables="    role: [one-way, echo]\n    echo_qos: [0, 2]\n"))

    assert study.scenario.variables[-2:] == (Factor("role", ("one-way", "echo")), Factor("echo_qos", (0, 2)))
    assert read(study_yaml(study)) == study


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (["role: ecko"], 'role: "ecko": unknown role; did you mean "echo"?'),
        (["echo: {qos: 1}"], "echo: belongs to the role echo; write role: echo"),
        (["topics: {reply: a}"], "reply: belongs to the role echo; write role: echo"),
        (["role: echo", "echo: {qos: 3}"], 'echo.qos: "3": must be 0, 1 or 2'),
        (
            ["role: loop", "subscribers: 2"],
            'subscribers: "2": in the roles echo and loop every publisher hears for itself',
        ),
        (["role: echo", "topics: {subscribe: x}"], 'subscribe: "x": in the roles echo and loop every publisher hears'),
        (
            ["role: echo", "topics: {publish: a, reply: a}"],
            'the answers on "a" would reach the devices, which hear "a"',
        ),
        (
            ["role: echo", "publishers: 2", "topics: {publish: a}"],
            'publish "a" needs {publisher}: a device answers one of',
        ),
        (["role: loop", "clients: {behaviour: per-message}"], "in the role loop connections last as long as the run"),
        (["probe: {every: 1 h}"], 'every: "1 h": no probe is due in the 5 s of deploy.phases.measure'),
        (["probe: {every: 0 s}"], 'every: "0 s": must be from 1 ms to 1 h'),
    ],
)
def test_a_role_that_cannot_be_is_refused(problems, small, keys, said):
    assert any(said in str(problem) for problem in problems(with_keys(small, keys)))
