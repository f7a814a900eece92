"""One request for a page or a picture, to a public address."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol, cast
from urllib.parse import urlsplit

import httpcore
import httpx

from .public_addresses import public_addresses
from .web_errors import WebFailed

_MOST_ADDRESSES = 4
_TIMEOUTS = dict.fromkeys(("connect", "read", "write", "pool"), 15.0)
_REDIRECTS = (301, 302, 303, 307, 308)


class Traffic(Protocol):
    """The bytes of one request."""

    sent: int
    received: int


class WebAnswer(NamedTuple):
    """What a server sent, with the names of headers in small letters; or where it redirects to."""

    content: bytes
    headers: dict[str, str]
    location: str = ""


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
        """Connect to the first address that answers; raises `WebFailed` if one is not public."""
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
        raise WebFailed("Only addresses of the web can be fetched.")

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


async def get(url: str, traffic: Traffic, *, accept: str, most_bytes: int) -> WebAnswer:
    """Return the answer, of whose content little more than `most_bytes` is read.

    Raises `WebFailed`.
    """
    try:
        return await _get(url, traffic, accept, most_bytes)
    except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError) as error:
        host = urlsplit(url).hostname
        raise WebFailed(f"{host} cannot be reached: {str(error)[:200]}") from error


async def _get(url: str, traffic: Traffic, accept: str, most_bytes: int) -> WebAnswer:
    context: ssl.SSLContext = await asyncio.to_thread(httpx.create_ssl_context)
    headers = [
        ("Host", urlsplit(url).netloc),
        ("User-Agent", "ingle"),
        ("Accept", accept),
        ("Accept-Encoding", "identity"),
        ("Connection", "close"),
    ]
    async with httpcore.AsyncConnectionPool(context, network_backend=PublicNetwork()) as pool:
        traffic.sent = len(url) + sum(len(name) + len(value) + 4 for name, value in headers)
        extensions = {"timeout": _TIMEOUTS}
        async with pool.stream("GET", url, headers=headers, extensions=extensions) as answer:
            found = {
                name.lower().decode(): value.decode("latin-1") for name, value in answer.headers
            }
            if answer.status in _REDIRECTS and found.get("location"):
                return WebAnswer(b"", found, found["location"])
            if answer.status >= 400:
                raise WebFailed(f"{urlsplit(url).hostname} answered with status {answer.status}.")
            content = bytearray()
            async for chunk in answer.aiter_stream():
                content += chunk
                traffic.received = len(content)
                if len(content) > most_bytes:
                    break
    return WebAnswer(bytes(content), found)
