"""The conformance probe: does a broker keep what the specification of MQTT says, as seen on the wire?

values      a check, what it may find, and how it says so
words       packets in a few words, for the evidence
peer        one connection that can send any bytes and records every packet
room        what one check has: connections, topics and names of its own, and a deadline
checks      all checks, in order; one module a topic
runner      runs them, many at once where they only wait
"""
