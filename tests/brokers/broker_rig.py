"""Starts real brokers for the contract suite."""

import contextlib
from dataclasses import dataclass

from brokerlab.brokers.base import Broker, Node
from brokerlab.brokers.port import free_port
from brokerlab.brokers.process import BrokerProcess
from brokerlab.lab.proof import Proof, prove_ready
from brokerlab.study.values import BrokerChoice

HOST = "127.0.0.1"


@dataclass(frozen=True)
class Running:
    driver: Broker
    process: BrokerProcess
    proof: Proof
    host: str
    port: int


def describe(driver, folder) -> Node:
    choice = BrokerChoice(driver.name, driver.name)
    return driver.node(choice, folder=folder, host=HOST, port=free_port(HOST))


@contextlib.contextmanager
def running(driver, folder):
    node = describe(driver, folder)
    with BrokerProcess(node, folder=folder) as process:
        yield Running(driver, process, prove_ready(process, node.host, node.port), node.host, node.port)
