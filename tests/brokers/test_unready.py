"""Brokers that do not become ready, none of them a driver's: how long they are waited for, and what is said."""

import sys

import pytest
from broker_rig import HOST

from brokerlab.brokers.base import Node
from brokerlab.brokers.port import free_port
from brokerlab.brokers.process import BrokerProcess
from brokerlab.errors import RunError
from brokerlab.lab.proof import prove_ready

pytestmark = pytest.mark.brokers

DELIVERS_NOTHING = """
import asyncio, sys
from brokerlab.load import scripted
from brokerlab.study.script import Script
scripted.ScriptedBroker.route = lambda self, number, message: None
asyncio.run(scripted.serve(Script(), host="127.0.0.1", port=int(sys.argv[1])))
"""


def test_broker_that_never_answers_is_waited_for_until_the_deadline(tmp_path):
    sleeps = Node((sys.executable, "-c", "import time; time.sleep(60)"), HOST, free_port(HOST))
    process = BrokerProcess(sleeps, folder=tmp_path / "0")

    with process, pytest.raises(RunError, match="waited in vain for a CONNACK from"):
        prove_ready(process, HOST, sleeps.port, deadline_s=0.3)


def test_broker_that_delivers_nothing_is_waited_for_until_the_deadline(tmp_path):
    """With the parts of the scripted broker, but routing nothing."""
    port = free_port(HOST)
    node = Node((sys.executable, "-c", DELIVERS_NOTHING, str(port)), HOST, port)

    late = pytest.raises(RunError, match=r"a message on brokerlab-proof/\w+: [1-9]\d* publications brought none")
    with BrokerProcess(node, folder=tmp_path / "0") as process, late:
        prove_ready(process, HOST, port, deadline_s=8)
