import errno
import os
import socket
from pathlib import Path

import pytest

from brokerlab.brokers.port import free_port, is_free, listener_pids, require_free
from brokerlab.errors import UserError

pytestmark = pytest.mark.unit
HOST = "127.0.0.1"


def test_free_port_can_be_listened_on_and_no_client_will_take_it():
    port = free_port(HOST)

    first_for_clients = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert port < first_for_clients
    with socket.create_server((HOST, port)):
        assert not is_free(HOST, port)
    require_free(HOST, port)


def test_port_that_is_listened_on_at_every_address_is_taken():
    with socket.create_server(("0.0.0.0", 0)) as taken:
        port = taken.getsockname()[1]

        assert not is_free(HOST, port)
        assert len(listener_pids(HOST, port)) == 1


def test_address_of_another_machine_is_refused():
    with pytest.raises(UserError, match=r"192\.0\.2\.1:1883: " + os.strerror(errno.EADDRNOTAVAIL)):
        is_free("192.0.2.1", 1883)
