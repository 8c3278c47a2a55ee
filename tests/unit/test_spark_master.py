"""Where Spark runs, as it is written; no Spark."""

import socket

import pytest

from brokerlab.errors import UserError
from brokerlab.pipeline.master import master_of

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("url", "kind", "needs_java", "is_here"),
    [
        (None, "local", True, True),
        ("local", "local", True, True),
        ("local[2]", "local", True, True),
        ("local[*,3]", "local", True, True),
        ("spark://127.0.0.1:7077", "cluster", True, True),
        ("spark://a:7077,b:7077", "cluster", True, False),
        ("yarn", "cluster", True, False),
        ("k8s://https://10.0.0.1:6443", "cluster", True, False),
        ("sc://spark.example:15002", "connect", False, False),
        ("sc://spark.example:15002/;token=abc", "connect", False, False),
    ],
)
def test_every_place_has_its_kind(url, kind, needs_java, is_here):
    master = master_of(url)

    assert (master.kind, master.needs_java, master.is_here) == (kind, needs_java, is_here)


@pytest.mark.parametrize("url", ["locale", "local[0]", "spark://host", "http://host:1", "sc:/host", "k8s://"])
def test_other_places_are_refused_with_the_forms_that_there_are(url):
    with pytest.raises(UserError, match="no place for Spark") as refused:
        master_of(url)
    assert "sc://HOST:PORT" in refused.value.hint


@pytest.mark.parametrize(
    ("url", "addresses"),
    [
        ("local[*]", ()),
        ("yarn", ()),
        ("k8s://https://10.0.0.1:6443", ()),
        ("spark://a:7077,b:7078", (("a", 7077), ("b", 7078))),
        ("sc://spark.example", (("spark.example", 15002),)),
        ("sc://spark.example:15003/;token=abc", (("spark.example", 15003),)),
    ],
)
def test_where_one_must_listen_is_in_the_url(url, addresses):
    assert master_of(url).addresses == addresses


@pytest.mark.parametrize("url", ["sc://127.0.0.1:1", "spark://127.0.0.1:1", "spark://127.0.0.1:1,127.0.0.1:2"])
def test_a_place_where_nobody_listens_is_told_at_once(url, monkeypatch):
    for name in ("grpc_proxy", "https_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)

    with pytest.raises(UserError, match=r"127\.0\.0\.1:1: Connection refused") as told:
        master_of(url).require_answer()
    assert url in told.value.message


def test_one_of_several_masters_is_enough():
    with socket.create_server(("127.0.0.1", 0)) as server:
        master_of(f"spark://127.0.0.1:1,127.0.0.1:{server.getsockname()[1]}").require_answer()
        server.settimeout(5)
        asked, _ = server.accept()

        with asked:
            assert asked.recv(1) == b""  # it was asked whether it is there, and nothing else
