"""brokerlab: a laboratory for MQTT brokers.

The flow is one way: study file -> plan -> run directories -> tables -> report.
"""

__version__ = "0.1.0"
