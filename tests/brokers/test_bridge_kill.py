"""Whatever kills the bridge, no acknowledged message is lost, and none comes twice at QoS 2 (F-17, F-08).

Ten moments each in `make test`; forty with BROKERLAB_CONTRACT, which `make test-brokers` sets: it has the time.
"""

import os
import random
import threading
import time

import pytest
from bridge_rig import Bridge, Ledger, bridge_text, client, mosquitto

MOMENTS = 40 if os.environ.get("BROKERLAB_CONTRACT", "quick") != "quick" else 10
MESSAGES = 100  # between two kills


def publish_while(ledger, publisher, qos, act):
    """Publishes on one thread while the bridge is killed and started on this one."""
    thread = threading.Thread(target=ledger.publish, args=(publisher, MESSAGES), kwargs={"qos": qos})
    thread.start()
    act()
    thread.join()


@pytest.mark.parametrize(("qos", "protocol"), [(1, "3.1.1"), (2, "3.1.1"), (2, "5.0")])
def test_a_bridge_that_is_killed_loses_nothing_that_was_acknowledged(tmp_path, qos, protocol):
    seeded = random.Random(f"{qos} {protocol}")
    ledger = Ledger()
    with mosquitto(tmp_path / "a") as here, mosquitto(tmp_path / "b") as there:
        text = bridge_text(here.node.port, there.node.port, route=f", qos: {qos}, workers: 2", protocol=protocol)
        with (
            Bridge(tmp_path / "bridge", text) as bridge,
            client(there) as subscriber,
            client(here) as publisher,
        ):
            subscriber.subscribe("t/#", qos)
            bridge.start()
            for _ in range(MOMENTS):

                def act():
                    time.sleep(seeded.uniform(0, 0.05))
                    bridge.kill()
                    bridge.start(joins=False)

                publish_while(ledger, publisher, qos, act)
            bridge.wait_for("joined")
            ledger.hear(subscriber, patience_s=10)

    assert ledger.lost == []
    assert len(ledger.acknowledged) == MOMENTS * MESSAGES
    if qos == 2:
        assert ledger.duplicated == []
        assert ledger.overtaken() == []
