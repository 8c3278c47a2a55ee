"""Addresses of brokers as people write them: host:port, with an IPv6 address in brackets."""

import ipaddress

from brokerlab.errors import UserError

_HIGHEST_PORT = 65_535


def read_address(written: object) -> tuple[str, int]:
    """Host and port."""
    host, colon, port = written.rpartition(":") if isinstance(written, str) else ("", "", "")
    is_bare_ipv6 = ":" in host and not (host.startswith("[") and host.endswith("]"))
    host = host.removeprefix("[").removesuffix("]")
    if not (host and colon and port.isdecimal() and 0 < int(port) <= _HIGHEST_PORT) or is_bare_ipv6:
        raise UserError(
            f"{written!r} is no address", hint="an address is written host:port, for example 192.0.2.1:1883"
        )
    try:
        host.encode("idna")  # as a socket will; it refuses empty levels, as in "a..b", and those above 63 bytes
    except UnicodeError as problem:
        raise UserError(f"{written!r} is no address: no host is called {host!r}") from problem
    return host, int(port)


def written_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_loopback(host: str) -> bool:
    """Whether it is this machine, with no network in between; of names only `localhost` is known to be."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
