"""The load: schedule, wire, clients and workers that publish and receive; the brokers of our own that prove them."""
