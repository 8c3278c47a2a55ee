"""What the tests of the command line share."""

import subprocess
from collections.abc import Callable

Program = Callable[..., "subprocess.CompletedProcess[str]"]

# Two cells, one run each, on a broker that comes with pip.
STUDY = """\
brokerlab: 1
study: tiny
goals: {question: Does it run?}
system: {brokers: {embedded: {driver: amqtt}}}
metrics: [latency, delivery]
scenario:
  workload: {publishers: 1, subscribers: 1, payload: 64 B, schedule: {rate: 50/s}}
  variables: {broker: [embedded], qos: [0, 1]}
deploy: {repetitions: 1, seed: 1, phases: {warmup: 0.1 s, measure: 0.5 s, drain: 1 s}}
"""
