"""The will that a client leaves with the broker (MQTT 3.1.1 section 3.1.2.5)."""

from brokerlab.load.packets import Will
from brokerlab.load.properties import WILL_DELAY
from brokerlab.load.spec import Client
from brokerlab.study.values import Workload


def will_of(client: Client, workload: Workload) -> Will | None:
    """None for a client that has none; the payload is nobody else's."""
    wills = workload.will
    if wills is None or not client.will:
        return None
    delay = ((WILL_DELAY, wills.delay_s),) if wills.delay_s else ()
    return Will(client.will, f"will of {client.name}".encode(), wills.qos, retain=wills.retain, properties=delay)
