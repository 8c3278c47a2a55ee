"""A study that can be counted on paper: three valid runs of one cell, an invalid one, and another broker.

Run 1, the ten messages (QoS 1; due at 1.9 s, which is warm-up, and then every 100 ms from 2.1 s):

    seq       0    1    2    3    4    5     6     7     8       9
    acked     yes  yes  yes  yes  yes  yes   yes   yes   no      yes
    arrives   1    1    2    110  4    5+6D  lost  7+8   lost    9       ms after it was due

    3 comes after 4 (reordered), 5 again with DUP and 7 again without, and two foreign messages arrive.
    Delivered 8 of 10, lost 2, one of them after its acknowledgement.
    Latency of the seven measured: 1 2 4 5 7 9 110 ms, mean 138 / 7.
    Their resolutions: 0, 0.5, 1, 3, 0, 2.5 and 60 ms, mean 67 / 7; they came 1, 1.5, 3, 2, 7, 6.5 and 50 ms after they
    were due at the earliest. Those of run 2 all have 0.5 ms, those of run 3 none, and of nats nobody knows.
    3 is late, too: this study allows 100 ms.

The run of the other broker was a search with one trial, of which nothing was sent, and a measure phase.
"""

from typing import Any

from pipeline_runs import MS, PHASES, RunBuilder, S, arrival, publication

from brokerlab.record.directory import StudyDirectory

MIB = 2**20
RECEIVED = "$SYS/broker/publish/messages/received"
SEARCH = {
    "search": {
        "p99_limit_ms": 3.0,
        "trials": [
            {"phase": "trial-1", "rate_per_s": 10.0, "outcome": "failed", "why": ["nothing arrived"]},
            {"phase": "measure", "rate_per_s": 5.0, "outcome": "passed", "why": []},
        ],
        "found": {"rate_per_s": 5.0, "low_per_s": 4.0, "high_per_s": 10.0, "is_limited": False},
    }
}
LINK = {"kind": "userspace", "claimed_rtt_ms": 5.0, "measured_rtt_ms": 5.5, "claimed_delay_ms": 2.5,
        "claimed_loss_percent": 1.0, "measured_loss_percent": 1.5, "probes": 200}  # fmt: skip
NETWORK = {
    "network": {
        "links": [
            LINK | {"link": "router1>router2", "problems": ["router1>router2: claims an rtt of 5 ms"]},
            LINK | {"link": "router2>router1", "problems": []},
        ]
    }
}
# At 2.55 s: what was due from 2.45 s on is its, five of the ten, of which 6 and 8 never came.
FAULTS = {"faults": [{"fault": 1, "kind": "kill", "node": 0, "target": "node 0", "at_ns": 2550 * MS, "end_ns": None}]}
CLAIMS = [
    {"topic": RECEIVED, "equals": "publications", "qos": [0, 1], "note": "counts QoS 0 and 1"},
    {"topic": "$SYS/only/zero", "equals": "publications", "qos": [0], "note": ""},
]


def ten_messages() -> dict[str, list[dict[str, Any]]]:
    due_ms = [1900, *range(2100, 3000, 100)]
    sent = [publication(seq, at_ms, acked=seq != 8, qos=1) for seq, at_ms in enumerate(due_ms)]
    arrivals = [
        arrival(sent[0], 1),
        arrival(sent[1], 1),
        arrival(sent[2], 2, resolution_ns=MS // 2),
        arrival(sent[4], 4, resolution_ns=MS),
        arrival(sent[3], 110, resolution_ns=60 * MS),
        arrival(sent[5], 5, resolution_ns=3 * MS),
        arrival(sent[5], 6, dup=True),
        arrival(sent[7], 7),
        arrival(sent[7], 8),
        arrival(sent[9], 9, resolution_ns=5 * MS // 2),
        arrival(sent[9], 9, publisher=2**32 - 1),
        arrival(sent[9], 9, seq=10),
    ]
    return {"publications": sent, "deliveries": arrivals}


def samples() -> list[dict[str, Any]]:
    """Broker: 0.5 s of CPU in the two seconds of measuring, 50, 60 and 70 MiB, two threads and for a moment five."""
    broker = [(2, 1000, 50, 2), (3, 1200, 60, 5), (4, 1500, 70, 2)]
    own = {"node": "broker/0", "process": 10, "open_files": 12}
    return [
        {**own, "at_ns": at * S, "cpu_ns": cpu * MS, "rss_bytes": rss * MIB, "threads": threads}
        for at, cpu, rss, threads in broker
    ]


def interfaces() -> list[dict[str, Any]]:
    """From site 2 come 4000 bytes in 30 packets in the two seconds of measuring, and one is dropped."""
    counts = [(2, 1000, 10, 0), (3, 2000, 20, 0), (4, 5000, 40, 1)]
    return [
        {"node": "router1", "interface": "site2", "at_ns": at * S}
        | {"rx_bytes": size, "rx_packets": packets, "rx_dropped": dropped}
        for at, size, packets, dropped in counts
    ]


def sessions() -> list[dict[str, Any]]:
    """Two clients accepted within 1 and 3 ms in the half second of connecting, one subscribed, one cut off later."""
    return [
        {"event": "connack", "at_ns": 100 * MS, "latency_ns": 1 * MS, "reason_code": 0},
        {"event": "connack", "at_ns": 200 * MS, "latency_ns": 3 * MS, "reason_code": 0},
        {"event": "suback", "at_ns": 600 * MS, "latency_ns": 2 * MS, "granted_qos": 1, "reason_code": 1},
        {"event": "closed by broker", "at_ns": 3 * S, "node": "publishers/0"},
    ]


def counters() -> list[dict[str, Any]]:
    """The broker saw the ten and the one that proved it ready."""
    values = [(RECEIVED, 2, 3.0), (RECEIVED, 5, 11.0), ("$SYS/only/zero", 5, 1.0), ("$SYS/uptime", 5, 6.0)]
    return [{"node": "broker/0", "name": name, "at_ns": at * S, "value": value} for name, at, value in values]


def plain(lost: int, *, resolution_ns: int | None = 0) -> dict[str, list[dict[str, Any]]]:
    """Ten measured messages, each 2 ms under way, the last `lost` of which do not arrive."""
    sent = [publication(seq, 2000 + 100 * seq, acked=True, qos=1) for seq in range(10)]
    arrivals = [arrival(message, 2, resolution_ns=resolution_ns) for message in sent[: 10 - lost]]
    return {"publications": sent, "deliveries": arrivals}


def write_example(study: StudyDirectory) -> None:
    cell = {"cell": "broker-amqtt.qos-1", "qos": 1, "subscribers": {0: ("t/#", 1)}, "counters": CLAIMS}
    late = {"ledger": {"late_s": 0.1}} | NETWORK | FAULTS
    _write(study, RunBuilder(**cell, repetition=1, order=4, more=late), ten_messages(), with_samples=True)
    _write(study, RunBuilder(**cell, repetition=2, order=1), plain(lost=0, resolution_ns=MS // 2))
    _write(study, RunBuilder(**cell, repetition=3, order=3), plain(lost=1))
    slow = {"value": "invalid", "reasons": ["the generator was the limit"]}
    _write(study, RunBuilder(**cell, repetition=4, order=5, verdict=slow), plain(lost=10))
    trials = {"trial-1" if name == "warmup" else name: times for name, times in PHASES.items()}
    search = RunBuilder(cell="broker-nats.qos-0", broker="nats", order=2, phases=trials, more=SEARCH)
    _write(study, search, plain(lost=0, resolution_ns=None))


def _write(
    study: StudyDirectory, run: RunBuilder, raw: dict[str, list[dict[str, Any]]], *, with_samples: bool = False
) -> None:
    more: dict[str, Any] = {}
    if with_samples:
        more = {
            "resources": {"sampler": samples()},
            "counters": {"sys": counters()},
            "interfaces": {"samples": interfaces()},
            "sessions": {"clients": sessions()},
        }
    messages = {
        "publications": {"publishers-0": raw["publications"]},
        "deliveries": {"subscribers-0": raw["deliveries"]},
    }
    run.write(study, **messages, **more)
