"""What a manifest says of the machine, beside what the kernel says elsewhere."""

from pathlib import Path

import pytest

from brokerlab.lab.machine import machine_facts

pytestmark = pytest.mark.unit


def test_congestion_control_is_the_kernel_s_default():
    told = Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text(encoding="utf-8").strip()

    assert machine_facts()["congestion_control"] == told
