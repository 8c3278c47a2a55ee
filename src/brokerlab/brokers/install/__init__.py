"""Gets brokers into the user's cache, each by its driver's `source`, whole or not at all."""
