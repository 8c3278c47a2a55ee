"""Networks of namespaces: built, proved, cut, captured and gone again (B-02, B-07, B-08, B-21, M-24)."""

import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
from network_rig import both, hear_ctrl_c, left, median_ping_ms, needs_networks, routers, two_sites

from brokerlab.errors import RunError
from brokerlab.inside import inside
from brokerlab.lab.leftovers import find_leftovers, remove_leftovers
from brokerlab.load import arrival
from brokerlab.load.stream import TcpStream, Wait, await_ready
from brokerlab.network.capture import Captures, taps_of
from brokerlab.network.interfaces import Interfaces
from brokerlab.network.proof import RTT_MS, RTT_SHARE

pytestmark = needs_networks
LINK = both(delay_ms=5.0, rate_bits_per_s=20e6)

HOLDS = """
import sys, time
from brokerlab.network.network import Network
from brokerlab.study.topology import Direction, Link, Topology
with Network(Topology("chain", 2, between=Link(Direction(1.0), Direction(1.0)))) as network:
    print(network.carrier.pid, *(host.namespace for host in network.layout.hosts), flush=True)
    time.sleep(60)
"""


@pytest.fixture(scope="module")
def network():
    with two_sites(LINK) as network:
        yield network


def test_links_are_what_they_claim_by_our_own_probes(network):
    rows = next((rows for rows in tried(network.measure) if not any(row.problems for row in rows)), None)

    assert rows is not None, "not once"
    assert {row.link for row in rows if row.kind != "veth"} == {"router1>router2", "router2>router1"}


def test_round_trip_by_ping(network):
    source, _, address = routers(network)

    rtt_ms = min(tried(lambda: median_ping_ms(source, address)), key=lambda found: abs(found - 10))
    assert abs(rtt_ms - 10) <= max(RTT_MS, RTT_SHARE * 10)


def tried(measure, *, times=5):
    """A host that gives its cores to others for a moment makes any link late: some attempts are allowed."""
    return (measure() for _ in range(times))


def test_a_cut_link_is_refused_and_a_mended_one_is_healthy(network):
    network.cut("router1-router2")
    with pytest.raises(RunError, match="not healthy: no echo between broker0 and clients1"):
        network.echo_pairs()
    network.cut("router1-router2", is_cut=False)

    assert len(network.echo_pairs()) == 3


def test_a_link_can_be_another_while_it_carries(network):
    source, _, address = routers(network)
    network.change("router1-router2", both(delay_ms=30.0))
    slow_ms = min(tried(lambda: median_ping_ms(source, address, count=20), times=3))
    network.change("router1-router2", LINK)

    assert slow_ms == pytest.approx(60, rel=RTT_SHARE)


def exchange(network, port):
    """100,000 bytes from the clients to the broker's place and 10 bytes back, over TCP."""
    with inside(network.brokers[0].namespace):
        listening = socket.create_server((network.brokers[0].address, port))
    with inside(network.clients[0].namespace):
        client = socket.create_connection(listening.getsockname())
    with listening, client, listening.accept()[0] as server:
        client.sendall(bytes(100_000))
        client.shutdown(socket.SHUT_WR)
        while server.recv(65_536):
            pass
        server.sendall(bytes(10))
        while client.recv(10):
            break


def lossy_reads(count):
    """So many messages of 50 bytes over a link that loses every tenth frame: when each read says its bytes came."""
    with two_sites(both(delay_ms=2.0, loss_percent=10.0)) as network:
        with inside(network.brokers[0].namespace):
            listening = socket.create_server((network.brokers[0].address, 1883))
        with inside(network.clients[0].namespace):
            client = socket.create_connection(listening.getsockname())
        with listening, client, listening.accept()[0] as server:
            stream, buffer, arrived = TcpStream(client), memoryview(bytearray(65_536)), []
            stream.stamp()
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sending = threading.Thread(
                target=lambda: [server.sendall(bytes(50)) or time.sleep(0.001) for _ in range(count)]
            )
            sending.start()
            left_bytes = 50 * count
            while left_bytes:
                await_ready(stream, Wait.READ, time.monotonic() + 30)
                size, at_ns = stream.read(buffer)
                left_bytes -= size
                arrived.append(at_ns)
            sending.join()
    return arrived


def test_bytes_behind_a_lost_segment_arrive_when_the_gap_is_closed(monkeypatch):
    """The kernel stamps a segment that came before those that precede it, though nobody could read it then."""
    stamps = []

    def noted(sock, buffer, read=arrival.read_stamped):
        stamps.append(read(sock, buffer))
        return stamps[-1]

    monkeypatch.setattr(arrival, "read_stamped", noted)
    arrived = lossy_reads(500)

    waited_ms = [(own - stamp) / 1e6 for own, (_, stamp) in zip(arrived, stamps, strict=True)]
    assert arrived == sorted(arrived)
    assert max(waited_ms) > 1
    assert min(waited_ms) >= 0
    assert sum(each < 0.01 for each in waited_ms) > len(waited_ms) / 2  # most segments came in order


def payload_bytes(path: Path):
    """Bytes of TCP payload in a pcap file, by destination port; what a busy machine sent again counts once."""
    content, at, places = path.read_bytes(), 24, {}
    while at < len(content):
        size = struct.unpack_from("=I", content, at + 8)[0]
        frame = content[at + 16 : at + 16 + size]
        tcp = 14 + 4 * (frame[14] & 15)
        source, port, first = struct.unpack_from("!HHI", frame, tcp)
        total = struct.unpack_from("!H", frame, 16)[0] + 14
        own = total - tcp - 4 * (frame[tcp + 12] >> 4)
        places.setdefault(port, set()).update((source, first + place) for place in range(own))
        at += 16 + size
    return {port: len(seen) for port, seen in places.items()}


def test_captures_hold_the_traffic_of_the_study_alone(network, tmp_path):
    captures = Captures(
        taps_of(network.layout, ["publisher", "broker", "subscriber", "router"], ports=[7001], homes=[1]), tmp_path
    )
    with captures:
        exchange(network, 7001)
        exchange(network, 7002)

    sizes = {entry["tap"] + " " + entry["place"]: payload_bytes(tmp_path / entry["file"]) for entry in captures.section}
    assert all(entry["dropped"] == 0 for entry in captures.section)
    assert sizes["publisher clients1 eth0"] == {7001: 100_000}
    assert 7002 not in sizes["broker broker0 eth0"]
    assert sizes["broker broker0 eth0"][7001] == 100_000
    assert sum(sizes["subscriber clients1 eth0"].values()) == 10
    assert sizes["router router2 site1"] == {7001: 100_000, 7002: 100_000}  # all that crosses


def test_a_capture_is_bounded(network, tmp_path):
    captures = Captures(taps_of(network.layout, ["broker"], ports=[7003]), tmp_path, most_bytes=20_000)
    with captures:
        exchange(network, 7003)

    (entry,) = captures.section
    assert (tmp_path / entry["file"]).stat().st_size <= 20_000 + 24
    assert entry["beyond_limit"] > 0


@pytest.mark.skipif(shutil.which("tcpdump") is None, reason="needs tcpdump")
def test_tcpdump_takes_and_reads_the_same(network, tmp_path):
    """Beside ours at the same tap, and on our file."""
    theirs, place = tmp_path / "theirs.pcap", network.brokers[0].namespace
    words = ["-i", "eth0", "-Z", "root", "--immediate-mode", "-U", "-w", str(theirs), "tcp port 7005"]
    tcpdump = subprocess.Popen(["ip", "netns", "exec", place, "tcpdump", *words], stderr=subprocess.PIPE, text=True)
    assert "listening on" in tcpdump.stderr.readline()
    captures = Captures(taps_of(network.layout, ["broker"], ports=[7005]), tmp_path)
    with captures:
        exchange(network, 7005)
        time.sleep(0.2)  # the last acknowledgements
    tcpdump.terminate()
    tcpdump.communicate(timeout=20)

    (entry,) = captures.section
    assert entry["dropped"] == 0
    assert len(frames_read(theirs)) == len(frames_read(tmp_path / entry["file"])) == entry["frames"] > 10
    assert payload_bytes(tmp_path / entry["file"])[7005] == 100_000


def frames_read(path):
    done = subprocess.run(["tcpdump", "-nn", "-r", str(path)], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_routers_count_what_comes_in(network):
    with Interfaces([network.layout.host("router2")]) as interfaces:
        before = {row["interface"]: row for row in interfaces.read(0)}
        exchange(network, 7004)
        after = {row["interface"]: row for row in interfaces.read(1)}

    grown = after["site1"]["rx_bytes"] - before["site1"]["rx_bytes"]
    assert 100_000 < grown < 120_000


def test_no_way_leads_out(network):
    """An address of nobody's (RFC 5737) is refused at once, and there is no interface that is not the network's."""
    for host in network.layout.hosts:
        with inside(host.namespace), socket.socket(socket.AF_INET, socket.SOCK_STREAM) as way:
            way.settimeout(10)
            with pytest.raises(OSError, match="unreachable"):
                way.connect(("192.0.2.1", 9))
    own = {interface for host in network.layout.hosts for interface in interfaces_in(host.namespace)}
    assert own == {"lo", "eth0", "switch", "bridge", "site1", "site2", "router", "broker0", "clients1", "clients2"}


def interfaces_in(namespace):
    with inside(namespace):
        return {name for _, name in socket.if_nameindex()}


def test_nothing_is_left(tmp_path, monkeypatch):
    before = left()
    with two_sites(LINK) as network:
        assert len(left() - before) >= len(network.layout.hosts)
        pid, own = network.carrier.pid, set(network._namespaces.values())

    assert not left() & own
    assert not psutil.pid_exists(pid)


def test_a_failed_start_leaves_nothing(monkeypatch):
    network = two_sites(LINK)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(RunError, match=r"did not begin to carry|is gone"):
        network.__enter__()

    assert not left() & {host.namespace for host in network.layout.hosts}


def holder(tmp_path):
    environment = {**os.environ, "BROKERLAB_STATE": str(tmp_path / "state")}
    started = subprocess.Popen(
        [sys.executable, "-c", HOLDS], stdout=subprocess.PIPE, text=True, env=environment,
        preexec_fn=hear_ctrl_c,  # noqa: PLW1509 - one call that is safe before exec
    )  # fmt: skip
    pid, *namespaces = started.stdout.readline().split()
    return started, int(pid), set(namespaces)


def test_ctrl_c_leaves_nothing(tmp_path):
    started, pid, namespaces = holder(tmp_path)
    assert namespaces <= left()
    started.send_signal(signal.SIGINT)
    started.communicate(timeout=30)

    assert not namespaces & left()
    assert not psutil.pid_exists(pid)


def test_what_a_killed_one_leaves_is_removed_by_clean(tmp_path, monkeypatch):
    started, pid, namespaces = holder(tmp_path)
    started.kill()
    started.communicate(timeout=30)
    monkeypatch.setenv("BROKERLAB_STATE", str(tmp_path / "state"))

    (leftover,) = find_leftovers().leftovers
    removed, problems = remove_leftovers()

    assert {path.name for path in leftover.namespaces} == namespaces
    assert (len(removed), problems) == (1, [])
    assert not namespaces & left()
    deadline = time.monotonic() + 10
    while psutil.pid_exists(pid):
        assert time.monotonic() < deadline, "the links' process outlives its network"
        time.sleep(0.05)
