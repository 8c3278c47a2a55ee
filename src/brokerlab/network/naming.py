"""The names of what we make in the kernel: one scheme, so that a name leads to the brokerlab that made it.

    brokerlab-3f2a91c07d-router1       a namespace: prefix, the network's own number, the host's name
    switch, site2, eth0                interfaces, named by where they lead; each is inside a namespace of ours

Interfaces have at most 15 characters.
"""

import secrets

PREFIX = "brokerlab-"


def new_number() -> str:
    """Of a network; nobody else has it."""
    return secrets.token_hex(5)


def namespace_of(number: str, host: str) -> str:
    return f"{PREFIX}{number}-{host}"
