"""Which counters are held against ours, and how a page of them is read."""

import threading
import time
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from brokerlab.brokers.base import Count, Counter, Node
from brokerlab.brokers.telling import basic, prometheus
from brokerlab.errors import RunError
from brokerlab.lab.counting import CounterWatch, Ours, why_not
from brokerlab.lab.tellers import read_page
from brokerlab.record.directory import RunDirectory
from brokerlab.study.values import Probe, Qos, Roles, Workload
from brokerlab.study.will_values import Wills

pytestmark = pytest.mark.unit

EXACT = Counter("received_total", Count.RECEIVED, is_exact=True)
SENT = Counter("sent_total", Count.SENT, is_exact=True)
LOAD = Workload(qos=Qos.AT_LEAST_ONCE)
OURS = Ours(publications=10, payload_bytes=640, proved=1)


class Page(BaseHTTPRequestHandler):
    """Tells one more message at each reading, up to 11, to who knows the password."""

    def do_GET(self):
        is_known = self.headers["Authorization"] == basic("a", "b")["Authorization"]
        self.server.readings += is_known
        self.send_response(200 if is_known else 401)
        self.end_headers()
        self.wfile.write(f"received_total {min(self.server.readings, 11)}\nsent_total 7\nother 1\n".encode())

    def log_message(self, *_):
        """Says nothing."""


@pytest.fixture
def page():
    with HTTPServer(("127.0.0.1", 0), Page) as server:
        server.readings = 9
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/metrics"
        server.shutdown()
        thread.join()


class Broker:
    def counters(self):
        return (EXACT, SENT, Counter("silent_total", Count.DROPPED, is_exact=True))

    def read_page(self, text):
        return prometheus(text)


def watch_of(page, tmp_path, **more):
    node = Node((), "127.0.0.1", 1, page=page, page_headers=basic("a", "b"), **more)
    return CounterWatch(Broker(), node, run=RunDirectory(tmp_path))


def test_a_page_is_read_with_its_headers(page):
    assert read_page(page, basic("a", "b"), prometheus) == {"received_total": 10.0, "sent_total": 7.0, "other": 1.0}
    with pytest.raises(RunError, match="answers 401 Unauthorized"):
        read_page(page, {}, prometheus)


def test_a_page_that_is_not_there_or_not_understood_is_a_run_error(page):
    def nothing(text):
        return {"x": {}[text]}

    with pytest.raises(RunError, match="cannot be read"):
        read_page("http://127.0.0.1:1/metrics", {}, prometheus)
    with pytest.raises(RunError, match="is not what its driver expects"):
        read_page(page, basic("a", "b"), nothing)


def test_counters_that_come_to_ours_contradict_nothing_and_are_kept(page, tmp_path):
    """The page says 10 at first, and 11 from its second reading on."""
    with watch_of(page, tmp_path) as watch:
        while watch.value(EXACT.name) is None:
            time.sleep(0.01)
        reasons = watch.compare(LOAD, OURS)

    assert reasons == []
    assert watch.value(EXACT.name) == 11
    assert watch.value("silent_total") is None
    assert watch.section(LOAD, OURS) == {"on": "page", "failure": None, "not_comparable": {}}
    assert [file.name for file in RunDirectory(tmp_path).files("counters")] == ["broker-0-00000.parquet"]


def test_a_counter_that_does_not_come_to_ours_is_a_reason(page, tmp_path):
    with watch_of(page, tmp_path) as watch:
        (reason,) = watch.compare(LOAD, replace(OURS, publications=3))

    assert reason.startswith("received_total of the broker is 1")
    assert reason.endswith("but our received are 4")


def test_a_page_that_cannot_be_read_contradicts_nothing_and_is_said(tmp_path):
    with watch_of("http://127.0.0.1:1/metrics", tmp_path) as watch:
        reasons = watch.compare(LOAD, OURS)

    assert reasons == []
    assert "cannot be read" in watch.section(LOAD, OURS)["failure"]


@pytest.mark.parametrize(
    ("counter", "workload", "ours", "why"),
    [
        (EXACT, LOAD, OURS, ""),
        (SENT, LOAD, OURS, ""),
        (replace(EXACT, is_exact=False), LOAD, OURS, "does not count single messages"),
        (replace(EXACT, count=Count.CONNECTIONS), LOAD, OURS, "no count of our own"),
        (replace(EXACT, qos=(Qos.AT_MOST_ONCE,)), LOAD, OURS, "leaves out QoS 1"),
        (replace(EXACT, qos=(Qos.AT_LEAST_ONCE,)), LOAD, replace(OURS, other_qos=(0,)), "leaves out QoS 0"),
        (replace(EXACT, has_retained=False), replace(LOAD, retain=True), OURS, "leaves out retained"),
        (replace(EXACT, has_retained=False), replace(LOAD, will=Wills(retain=True)), OURS, "leaves out retained"),
        (replace(EXACT, has_retained=False), replace(LOAD, will=Wills()), OURS, ""),
        (EXACT, replace(LOAD, retain=True, will=Wills(retain=True)), OURS, ""),
        (SENT, replace(LOAD, retain=True, will=Wills(retain=True)), OURS, "there are wills"),
        (SENT, replace(LOAD, role=Roles.ECHO), OURS, "devices answer"),
        (SENT, replace(LOAD, probe=Probe()), OURS, "there is a probe"),
        (EXACT, replace(LOAD, probe=Probe()), OURS, ""),
        (SENT, LOAD, replace(OURS, proved=2), "the proof of readiness took several"),
        (replace(SENT, has_proof=False), LOAD, replace(OURS, proved=2), ""),
    ],
)
def test_why_a_counter_cannot_be_compared(counter, workload, ours, why):
    said = why_not(counter, workload, ours)

    assert why in said
    assert bool(why) == bool(said)
