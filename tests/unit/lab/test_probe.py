"""The checks of the probe find what they look for: against a peer that keeps nothing, and against made faults."""

import asyncio
import threading
from contextlib import ExitStack
from dataclasses import replace

import pytest
from lax_broker import LaxBroker

from brokerlab.errors import UserError
from brokerlab.lab.probe.checks import CHECKS, GROUPS, chosen
from brokerlab.lab.probe.room import Place
from brokerlab.lab.probe.runner import probe, run_check
from brokerlab.lab.probe.values import Result
from brokerlab.lab.probe.words import joined, words
from brokerlab.load.packets import Publish, Subscribe
from brokerlab.load.scripted import ScriptedBroker
from brokerlab.load.scripted_client import Connection
from brokerlab.study.script import Script

pytestmark = pytest.mark.unit

PATIENCE_S = 1.0  # nobody here is slow, but the machine may be
SILENT = {"drop", "ignore", "unacknowledged"}  # faults after which nothing comes, however long one waits
BY_ID = {check.id: check for check in CHECKS}

# What the lax peer breaks in 3.1.1, and beside it in 5.0. No check may call any of this kept.
BROKEN_BY_LAX = {
    "connect.accepted", "connect.unknown-level", "connect.empty-id-kept", "connect.takeover", "keepalive.enforced",
    "qos.2-in", "qos.2-out", "qos.2-repeated", "qos.lower", "qos.dup", "order.qos-2", "subscribe.unsubscribe",
    "wildcard.plus", "wildcard.plus-end", "wildcard.dollar", "retained.kept",
    "retained.live", "will.farewell", "will.qos", "will.error", "session.present", "session.clean", "session.queue-1",
    "malformed.not-connect", "malformed.connect-flag", "malformed.qos-3", "malformed.second-connect",
    "malformed.publish-plus", "malformed.subscribe-flags",
}  # fmt: skip
BROKEN_BY_LAX_5 = {
    "connect.takeover-told", "subscribe.no-local", "subscribe.identifier", "property.user", "property.request",
    "will.properties", "limit.client-packet", "limit.client-window", "alias.too-high", "session.expires-0",
    "malformed.property-unknown", "malformed.receive-maximum-0",
}  # fmt: skip


@pytest.fixture(scope="module")
def lax():
    """Everything that was found with the lax peer: id -> protocol -> finding."""
    wanted = BROKEN_BY_LAX | BROKEN_BY_LAX_5 | {"connect.ping", "payload.binary"}
    with LaxBroker() as broker:
        place = Place("127.0.0.1", broker.port, patience_s=PATIENCE_S)
        found = probe(place, [BY_ID[each] for each in sorted(wanted)])
    table = {}
    for finding in found:
        table.setdefault(finding.check.id, {})[finding.protocol] = finding
    return table


FEW = 4  # connections: `connect.accepted` takes three


class HangingBroker(LaxBroker):
    """Answers on the first few connections, and takes in all others without a word."""

    def started(self, client):
        if len(self._clients) <= FEW:
            client.thread.start()


def hanging_then_not(stack):
    """The place of a broker that hangs, and what starts another one that does not."""
    place = Place("127.0.0.1", stack.enter_context(HangingBroker()).port, patience_s=PATIENCE_S)
    return place, lambda: replace(place, port=stack.enter_context(LaxBroker()).port)


def test_a_broker_that_hangs_is_started_again_and_its_checks_are_made_again():
    """Otherwise one hanging thread would break every rule of MQTT (Moquette 0.17 does so)."""
    with ExitStack() as stack:
        place, renew = hanging_then_not(stack)
        found = probe(place, [BY_ID["connect.ping"], BY_ID["qos.2-in"]], renew=renew)
    results = {(each.check.id, each.protocol): each for each in found}

    assert results["connect.ping", "3.1.1"].result is Result.KEPT
    assert results["qos.2-in", "3.1.1"].reason == "PUBACK #4711 came where PUBREC #4711 was due"
    still = next(each for each in found if each.check.id == "connect.still")
    assert (still.result, still.reason) == (
        Result.BROKEN, "new clients were no longer served after checks side by side",
    )  # fmt: skip


def test_somebodys_broker_that_hangs_is_said_to():
    with ExitStack() as stack:
        place, _ = hanging_then_not(stack)
        found = probe(place, [BY_ID["connect.ping"]])

    assert next(each for each in found if each.check.id == "connect.still").result is Result.BROKEN
    pings = [each.result for each in found if each.check.id == "connect.ping"]  # of three versions, one is served
    assert len(pings) == 3
    assert pings.count(Result.KEPT) <= 1


def test_a_broker_that_serves_on_is_said_to(lax):
    assert [each.result for each in lax["connect.still"].values()] == [Result.KEPT]


def test_there_are_many_checks_each_with_its_sections():
    assert len(CHECKS) >= 60
    assert len(BY_ID) == len(CHECKS)
    assert all(check.sections and set(check.sections) <= {3, 4, 5} and check.title for check in CHECKS)
    assert sum(4 in check.sections for check in CHECKS) >= 60
    assert sum(5 in check.sections for check in CHECKS) >= 60


@pytest.mark.parametrize("name", sorted(BROKEN_BY_LAX))
def test_a_broker_that_keeps_nothing_is_found_out(lax, name):
    finding = lax[name]["3.1.1"]

    assert (finding.result, bool(finding.reason)) == (Result.BROKEN, True), finding
    assert "> " in finding.evidence


@pytest.mark.parametrize("name", sorted(BROKEN_BY_LAX_5))
def test_a_broker_that_keeps_nothing_of_5_is_found_out(lax, name):
    finding = lax[name]["5.0"]

    assert (finding.result, bool(finding.reason)) == (Result.BROKEN, True), finding
    assert "> " in finding.evidence


@pytest.mark.parametrize("name", ["connect.ping", "payload.binary"])
def test_what_it_does_keep_is_kept(lax, name):
    assert lax[name]["3.1.1"].result is Result.KEPT, lax[name]


@pytest.fixture
def scripted():
    """Runs one check against our scripted broker with these faults."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def run(name, **faults):
        broker, connections = ScriptedBroker(Script(**faults)), []

        def connect():
            connections.append(Connection(broker))
            return connections[-1]

        async def close():
            server.close()
            for connection in connections:
                connection.close()
            await asyncio.sleep(0.02)  # a transport closes its socket in a later turn of the loop

        serving = loop.create_server(connect, "127.0.0.1", 0)
        server = asyncio.run_coroutine_threadsafe(serving, loop).result(5)
        port = server.sockets[0].getsockname()[1]
        try:
            patience_s = PATIENCE_S if SILENT & set(faults) else 10.0
            return run_check(Place("127.0.0.1", port, patience_s=patience_s), BY_ID[name], 4)
        finally:
            asyncio.run_coroutine_threadsafe(close(), loop).result(5)

    yield run
    loop.call_soon_threadsafe(loop.stop)
    thread.join(5)
    loop.close()


ALL = frozenset(range(1, 100))


@pytest.mark.parametrize(
    ("name", "faults", "result", "reason"),
    [
        ("qos.1-out", {}, Result.KEPT, "delivered once at QoS 1"),
        ("qos.1-out", {"drop": frozenset({1})}, Result.BROKEN, "no message came to sub"),
        ("qos.0", {"duplicate": frozenset({1})}, Result.BROKEN, "one publication came 2 times"),
        ("qos.1-in", {"unacknowledged": frozenset({1})}, Result.BROKEN, "no PUBACK came"),
        ("qos.1-in", {"reject": frozenset({1})}, Result.BROKEN, "closed the connection where PUBACK was due"),
        ("qos.2-in", {"ignore": frozenset({1})}, Result.BROKEN, "no PUBREC came"),
        ("qos.0", {"malformed": frozenset({1})}, Result.BROKEN, "what is not MQTT: there is no QoS 3"),
        ("qos.granted", {"grant_qos": 1}, Result.UNSUPPORTED, "QoS 2 was asked for and QoS 1 granted"),
        ("order.qos-1", {"swap": ((3, 7),)}, Result.BROKEN, "came in the order 0, 1, 6, 3, 4, 5, 2, 7"),
        ("order.qos-0", {"drop": frozenset({50})}, Result.BROKEN, "109 of 110 messages came"),
        ("wildcard.exact", {"misroute": ALL}, Result.BROKEN, "~/A got ~/a, "),
        ("payload.binary", {"foreign": ALL, "drop": ALL}, Result.BROKEN, "no message came"),
        ("connect.accepted", {"refuse_connection": {1: 5}}, Result.UNSUPPORTED, "not authorized"),
        ("payload.empty", {"drop": ALL}, Result.BROKEN, "two messages without payload"),
        ("subscribe.unsubscribe", {"drop": ALL}, Result.UNKNOWN, "a last message"),
    ],
)
def test_a_made_fault_is_found(scripted, name, faults, result, reason):
    finding = scripted(name, **faults)

    assert finding.result is result, finding
    assert reason in finding.reason


def test_a_broker_that_is_gone_is_unknown_and_not_broken():
    with LaxBroker() as broker:
        port = broker.port
    place = Place("127.0.0.1", port, obituary=lambda: "its process ended with exit code -11")

    finding = run_check(place, BY_ID["connect.ping"], 4)

    assert finding.result is Result.UNKNOWN
    assert finding.reason.endswith("refused; its process ended with exit code -11")


def test_the_payload_search_ends_where_it_is_told():
    """That it finds a limit is seen on rumqttd and NATS, which have one."""
    with LaxBroker() as broker:
        place = Place("127.0.0.1", broker.port, largest_bytes=16_000)
        finding = run_check(place, BY_ID["payload.largest"], 4)

    assert (finding.result, finding.reason) == (Result.KEPT, "16,000 B delivered, where the search ends")


def test_groups_and_ids_can_be_chosen():
    assert {check.group for check in chosen(["qos", "will"])} == {"qos", "will"}
    assert [check.id for check in chosen(["will.delay"])] == ["will.delay"]
    assert chosen([]) == CHECKS
    assert set(GROUPS) == {check.group for check in CHECKS}
    with pytest.raises(UserError, match="did you mean retained"):
        chosen(["retaned"])


def test_packets_are_written_in_a_few_words():
    assert words(Publish("a/b/t", b"123", 1, 7, dup=True, retain=True), "a/b") == "PUBLISH q1 #7 dup retain ~/t 3 B"
    assert words(Subscribe(3, (("a/b/#", 2), ("c", 0x15))), "a/b") == "SUBSCRIBE #3 ~/# q2, c q1 options 0x15"


def test_a_long_trace_keeps_both_ends():
    line = joined([str(number) for number in range(100)])

    assert line.startswith("0; 1; ")
    assert line.endswith("; 98; 99")
    assert "… 52 more …" in line
