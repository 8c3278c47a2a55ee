"""How many messages a broker lets a publisher have in the middle of a QoS 2 handshake, as it says itself.

Mosquitto loses what a publisher sends beyond that, or ends its connection. Before MQTT 5.0 no broker tells; over a
connection of MQTT 5.0 it may (receive maximum, section 3.2.2.3.3), and Mosquitto means the same for clients of every
version. Others say less there than they take from older clients, so a word for less than usual changes nothing.
"""

from brokerlab.errors import RunError
from brokerlab.load.client import Client, Login
from brokerlab.load.properties import RECEIVE_MAXIMUM, number_of
from brokerlab.load.spec import WorkerSpec

USUAL = 512  # of a publisher, where the broker says nothing
_LONGEST_S = 5.0


def told(spec: WorkerSpec, *, timeout_s: float) -> int | None:
    """Of each publisher; asked over a connection of its own, which the worker's first client could have opened."""
    first = spec.clients[0]
    login = Login(spec.entrance, first.user, first.password, first.certificate, protocol="5.0")
    try:
        with Client(spec.host, spec.port, login=login, timeout_s=min(timeout_s, _LONGEST_S)) as client:
            return number_of(client.said, RECEIVE_MAXIMUM)
    except RunError:  # it does not speak MQTT 5.0; if it is not there at all, the publishers say so in a moment
        return None
