"""Connections to public addresses only, whatever a name or a redirect says."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterable
from typing import Any, cast

import httpcore

from .tool import ToolFailed

_MOST_ADDRESSES = 4
_IPV4_IN_IPV6 = tuple(
    ipaddress.ip_network(text) for text in ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16")
)


class PublicNetwork(httpcore.AsyncNetworkBackend):
    """Resolves a name once and connects to what it was checked for."""

    def __init__(self) -> None:
        self._inner = cast("httpcore.AsyncNetworkBackend", httpcore.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's interface
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Connect to the first address that answers; raises `ToolFailed` if one is not public."""
        addresses = await public_addresses(host, port)
        failure: Exception | None = None
        for address in addresses[:_MOST_ADDRESSES]:
            try:
                return await self._inner.connect_tcp(
                    address, port, timeout, local_address, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
        raise failure or httpcore.ConnectError("no address")

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Refuse."""
        raise ToolFailed("Only pages of the web can be fetched.")

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


async def public_addresses(host: str, port: int) -> list[str]:
    """Return the addresses of a name; raises `ToolFailed` unless all of them are public."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ToolFailed(f"The name {host} was not found.") from error
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    if not all(is_public(address) for address in addresses):
        raise ToolFailed(
            f"{host} is an address of this machine or of a private network. Such pages are not "
            "fetched."
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
