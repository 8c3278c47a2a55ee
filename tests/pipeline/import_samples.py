"""Small true samples: each as its tool writes it, few enough to count on paper."""

from pathlib import Path

A, B, C = "a" * 64, "b" * 64, "c" * 64

# a twice, b late, c never received twice; one line of the program itself.
SUBSCRIBER_LOG = f"""\
2024-09-10 12:00:00,120 INFO {A} 1725969600000.25 1725969600132.25 p1/hub1/data 11076 12 1
2024-09-10 12:00:00,400 INFO {A} 1725969600000.25 1725969600400.25 p1/hub1/data 11076 12 1
2024-09-10 12:00:01,300 INFO {C} 1725969601000.0 1725969601200.0 p2/hub3/data 518 12 1
2024-09-10 12:00:01,500 INFO {B} 1725969600500.0 1725969601500.0 p1/hub1/data 11076 12 2
2024-09-10 12:00:02,000 INFO Disconnected from the broker
"""

# B-20: two subscribers of two brokers; the first broker's second message came to one of them only.
BORDER_E2E = """\
receiver_brk,receiver_id,src_brk,client_num,sent,msg_id,received,qos
10.0.0.100,b'subThread-1-abcdef',10.0.0.100,0,1620000000000,0,1620000000005,1
10.0.1.100,b'subThread-1-ghijkl',10.0.0.100,0,1620000000000,0,1620000000055,1
10.0.0.100,b'subThread-1-abcdef',10.0.0.100,0,1620000001000,1,1620000001007,1
10.0.1.100,b'subThread-1-ghijkl',10.0.0.100
"""
BORDER_CONN = """\
broker,client,conn,connack
10.0.0.100,b'subThread-1-abcdef',1619999999000,1619999999012
"""

DOCKER_TABLE = """\
\x1b[2J\x1b[HCONTAINER ID   NAME      CPU %     MEM USAGE / LIMIT     MEM %     NET I/O           BLOCK I/O        PIDS
0123456789ab   emqx_0    50.00%    100MiB / 2GiB         4.88%     1.5kB / 2MB       0B / 4.1kB       90
\x1b[2J\x1b[HCONTAINER ID   NAME      CPU %     MEM USAGE / LIMIT     MEM %     NET I/O           BLOCK I/O        PIDS
0123456789ab   emqx_0    100.00%   200MiB / 2GiB         9.77%     3kB / 4MB         0B / 8.2kB       91
ba9876543210   gone      --        -- / --               --        --                --               --
"""
DOCKER_TS = """\
2021-05-03-12:00:00, 0123456789ab,emqx_0,50.00%,100MiB / 2GiB,4.88%,1.5kB / 2MB,0B / 4.1kB,90
2021-05-03-12:00:02, 0123456789ab,emqx_0,25.00%,200MiB / 2GiB,9.77%,3kB / 4MB,0B / 8.2kB,91
"""
DOCKER_JSON = """\
{"BlockIO":"0B / 4.1kB","CPUPerc":"50.00%","Container":"0123456789ab","ID":"0123456789ab","MemPerc":"4.88%",\
"MemUsage":"100MiB / 2GiB","Name":"emqx_0","NetIO":"1.5kB / 2MB","PIDs":"90"}
"""

COLLECTL = """\
################################################################################
# Collectl:   V4.3.1-1  HiRes: 1  Options: -P -s cmn
# Host:       broker  DaemonOpts:
# NumCPUs: 4  HyperThreading: OFF
################################################################################
#Date Time [CPU]User% [CPU]Sys% [CPU]Totl% [MEM]Tot [MEM]Used [NET]RxKBTot [NET]TxKBTot
20200601 12:00:00 10 5 15 64000000 512000 34 40
20200601 12:00:01 20 5 25 64000000 612000 44 50
20200601 12:00:02 20 five 25 64000000 612000 44 50
"""

# S-13: at 1 Hz; the header is none of the numbers.
BLASTER = """\
CPU,MQTT CPU,Disk Read,Disk Write,Swap,Memory,Rx,Tx,Latency
30.5,80.0,0.10,2.30,0,12.5,1.25,18.75,1.50
31.5,90.0,0.10,2.30,0,12.5,1.25,18.75,2.50
31.5,90.0,0.10
"""

EMQTT_BENCH_PUB = """\
Start with 2 workers, addrs pool size: 1 and req interval: 10 ms

\r1s connect_succ total=10 rate=10.00/sec
\r1s pub total=100 rate=100.00/sec
\r1m1s pub total=6100 rate=100.00/sec
something else
"""
EMQTT_BENCH_SUB = """\
\r1s recv total=98 rate=98.00/sec
\r1s publish_latency avg=3ms
\r1m1s recv total=6090 rate=99.87/sec
"""

MQTTLOADER_RECORD = """\
1599643916401359,,,
1599643916416823,ml-EeiE-p-00001,S,
1599643916416882,ml-EeiE-p-00000,S,
1599643916419123,ml-EeiE-s-00000,R,3165
1599643916422982,ml-EeiE-p-00001,S,
1599643916425000,ml-EeiE-s-00000,R,2000
1599643916425,ml-EeiE-s-00000,Q
"""
MQTTLOADER_SUMMARY = """\
-----Publisher-----
Maximum throughput [msg/s]: 18430
Average throughput [msg/s]: 14191.0
Number of published messages: 28382
Per second throughput [msg/s]: 11955, 16427

-----Subscriber-----
Maximum throughput [msg/s]: 16414
Average throughput [msg/s]: 13816.0
Number of received messages: 27632
Per second throughput [msg/s]: 11218, 16414
Maximum latency [ms]: 81.838
Average latency [ms]: 42.236
"""

MQTT_STRESSER = """\
10 worker started
....
# Configuration
Concurrent Clients: 10
Messages / Client:  1500

# Results
Published Messages: 1500 (100%)
Received Messages:  1490 (99%)
Completed:          9 (90%)
Errors:             1 (10%)
- ConnectFailed:      0 (0%)

# Publishing Throughput
Fastest: 79452 msg/sec
Slowest: 14991 msg/sec
Median: 42093 msg/sec

  < 21437 msg/sec  6%
  < 27883 msg/sec  100%

# Receiving Througput
Fastest: 4102 msg/sec
Slowest: 65 msg/sec
Median: 1919 msg/sec
"""

EMQTTB = """\
2023-04-01T10:00:00Z
# TYPE emqttb_published_messages gauge
emqttb_published_messages{group="pub/pub"} 0
emqttb_received_messages{group="sub/sub"} 0
erlang_vm_process_count 312
2023-04-01T10:00:10Z
emqttb_published_messages{group="pub/pub"} 1000
emqttb_received_messages{group="sub/sub"} 999
emqttb_e2e_latency{group="sub/sub"} 1250
emqttb_e2e_latency{group="sub/none"} NaN
"""

CSV = """\
receiver;from;id;t_out;t_in;size
s1;p1;m1;0.100;0.150;64
s1;p1;m2;0.200;0.230;64
s2;p1;m1;0.100;0.120;64
s2;p1;m2;yesterday;0.240;64
"""
CSV_MAPPING = """\
separator: ";"
columns:
  subscriber: receiver
  publisher: from
  message: id
  sent: {column: t_out, unit: s}
  received: {column: t_in, unit: s}
  payload_bytes: size
qos: 0
"""


def write(folder: Path, **files: str) -> Path:
    """Writes texts under their names, `_` before the ending; the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text, encoding="utf-8")
    return folder
