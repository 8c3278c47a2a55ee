"""The counts of interfaces (B-21)."""

from brokerlab.network.interfaces import parse

RECEIVED, SENT = "8649123 140 0 7 0 0 0 0", "7963 137 0 3 0 0 0 0"
TEXT = f"""Inter-|   Receive  |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes
    lo:     100       1    0    0    0     0          0         0      100 1 0 0 0 0 0 0
 site2: {RECEIVED}     {SENT}
"""


def test_counts_of_everything_but_loopback():
    ((name, counts),) = parse(TEXT)

    assert name == "site2"
    assert [counts[place] for place in (0, 1, 3, 8, 9, 11)] == [8649123, 140, 7, 7963, 137, 3]
