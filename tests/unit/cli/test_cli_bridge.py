"""`brokerlab bridge` reads its file, says what is wrong with it, and gives up when it is told to."""

import socket

import pytest

pytestmark = pytest.mark.unit

FILE = """\
bridge: 1
brokers: {here: {address: "127.0.0.1:%d"}, there: {address: "127.0.0.1:%d"}}
routes: {up: {from: here, to: there, subscribe: "t/#", qos: 2, both: true}}
"""


def test_check_shows_every_route_and_starts_nothing(brokerlab, tmp_path):
    (tmp_path / "b.yaml").write_text(FILE % (1883, 1884))

    done = brokerlab("bridge", str(tmp_path / "b.yaml"), "--check")

    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["route", "up", "up-back"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.yaml"]


def test_a_file_with_problems_is_refused(brokerlab, tmp_path):
    (tmp_path / "b.yaml").write_text((FILE % (1883, 1884)).replace("to: there", "to: ther"))

    done = brokerlab("bridge", str(tmp_path / "b.yaml"))

    assert done.returncode == 64
    assert 'b.yaml:3: routes.up.to: "ther": no such broker in brokers; did you mean "there"?' in done.stderr


def test_brokers_that_do_not_answer_are_named_when_it_gives_up(brokerlab, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    (tmp_path / "b.yaml").write_text(FILE % (port, port))

    done = brokerlab("bridge", str(tmp_path / "b.yaml"), "--within", "0.3")

    assert done.returncode == 64
    assert "brokerlab: not joined in 0.3 s: " in done.stderr
    assert f"there (127.0.0.1:{port}): Connection refused" in done.stderr
