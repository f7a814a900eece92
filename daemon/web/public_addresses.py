"""Which addresses are public: not of this machine, nor of a private network."""

from __future__ import annotations

import asyncio
import ipaddress
import socket

from .web_errors import WebFailed

_IPV4_IN_IPV6 = tuple(
    ipaddress.ip_network(text) for text in ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16")
)


async def public_addresses(host: str, port: int) -> list[str]:
    """Return the addresses of a name; raises `WebFailed` unless all of them are public."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise WebFailed(f"The name {host} was not found.") from error
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    if not all(is_public(address) for address in addresses):
        raise WebFailed(
            f"{host} is an address of this machine or of a private network. Nothing is fetched "
            "there."
        )
    return addresses


def is_public(address: str) -> bool:
    """Return whether an address is reachable on the public internet only."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            parsed = parsed.ipv4_mapped
        elif any(parsed in network for network in _IPV4_IN_IPV6):
            return False  # a gateway could lead it into a private network
    return parsed.is_global and not parsed.is_multicast
