"""The brokers: base.py holds the small protocols, one file a broker implements those it can."""
