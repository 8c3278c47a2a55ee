"""Random choices as hashes of (seed, purpose, ...): nothing depends on order, partitioning or the process."""

import json
from hashlib import blake2b

_SEED_BITS = 53  # every JSON reader keeps whole numbers of this size exactly


def derived_seed(seed: int, purpose: str, *names: str | int) -> int:
    """The seed for one purpose, such as ("run", "broker-amqtt.qos-1", 2); equal inputs, equal seed."""
    text = json.dumps([seed, purpose, *names], ensure_ascii=False)
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> (64 - _SEED_BITS)
