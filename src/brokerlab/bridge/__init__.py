"""The client-side bridge: joins any two brokers, with a transformer in between (docs/bridge.md)."""
