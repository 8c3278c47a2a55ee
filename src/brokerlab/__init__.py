"""brokerlab: a laboratory for MQTT brokers.

The flow is one way: study file -> plan -> run directories -> tables -> report.
"""

from brokerlab.machinecode import keep_apart

__version__ = "0.1.0"
keep_apart()
