"""The tool that fetches a page of the web."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from functools import partial
from typing import Annotated
from urllib.parse import quote, urljoin, urlsplit, urlunsplit

import httpcore
import httpx
import msgspec
from msgspec import Meta

from ..client.tool_types import ToolInfo
from .departures import Departure, Departures
from .page_text import page_text
from .public_network import PublicNetwork, is_public
from .tool import (
    ConsentTerms,
    PlannedCall,
    ToolFailed,
    ToolOutcome,
    bounded,
    one_line,
    parameters_of,
    read_arguments,
)

_MOST_BYTES = 2 * 2**20
_MOST_REDIRECTS = 5
_SECONDS = 30.0
_TIMEOUTS = dict.fromkeys(("connect", "read", "write", "pool"), 15.0)
_MOST_OF_URL = 2_000
_REDIRECTS = (301, 302, 303, 307, 308)
_SAFE = "!#$%&'()*+,/:;=?@[]~"


class FetchArguments(msgspec.Struct, frozen=True):
    """Arguments of `fetch_page`."""

    url: Annotated[str, Meta(description="http or https address.")]


class FetchPage:
    """Fetches pages, and records in the ledger what that sends."""

    def __init__(self, departures: Departures) -> None:
        self._departures = departures

    @property
    def info(self) -> ToolInfo:
        """Return what the model sees of it."""
        return ToolInfo(
            "fetch_page", "Get the text of a web page.", parameters_of(FetchArguments), "fetch"
        )

    async def plan(
        self, call_id: str, arguments: str, output: Callable[[str], None]
    ) -> PlannedCall:
        """Return the request."""
        url = checked_url(read_arguments(arguments, FetchArguments).url)
        host = host_of(url)
        return PlannedCall(
            partial(self._fetch, url),
            ConsentTerms(
                effect="fetch",
                title=f"Fetch {one_line(url)}",
                scope=f"fetch pages of {host}",
                preview=url,
                leaves=f"The address above, to {host}. Nothing else of the chat.",
            ),
        )

    async def _fetch(self, url: str) -> ToolOutcome:
        origin = host_of(url)
        try:
            async with asyncio.timeout(_SECONDS):
                for _ in range(_MOST_REDIRECTS):
                    page, location = await self._get(url)
                    if not location:
                        break
                    url = checked_url(urljoin(url, location))
                    if host_of(url) != origin:
                        raise ToolFailed(f"The page moved to {url}. Fetch that if it is needed.")
                else:
                    raise ToolFailed("The page redirects too often.")
        except TimeoutError as error:
            raise ToolFailed(f"{origin} took longer than {_SECONDS:.0f} s.") from error
        except (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError) as error:
            raise ToolFailed(f"{origin} cannot be reached: {one_line(str(error))}") from error
        return ToolOutcome(bounded(page), f"{origin} ({len(page)} characters)")

    async def _get(self, url: str) -> tuple[str, str]:
        departure = await self._departures.begin("fetch_page", host_of(url))
        outcome = "failed"
        try:
            found = await _get(url, departure)
            outcome = "complete"
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        finally:
            await asyncio.shield(departure.settle(outcome))
        return found


async def _get(url: str, departure: Departure) -> tuple[str, str]:
    """Return the text of the page, or the address that it redirects to."""
    context: ssl.SSLContext = await asyncio.to_thread(httpx.create_ssl_context)
    headers = [
        ("Host", urlsplit(url).netloc),
        ("User-Agent", "ingle"),
        ("Accept", "text/html, text/plain, application/json"),
        ("Accept-Encoding", "identity"),
        ("Connection", "close"),
    ]
    async with httpcore.AsyncConnectionPool(context, network_backend=PublicNetwork()) as pool:
        departure.sent = len(url) + sum(len(name) + len(value) + 4 for name, value in headers)
        extensions = {"timeout": _TIMEOUTS}
        async with pool.stream("GET", url, headers=headers, extensions=extensions) as answer:
            found = {
                name.lower().decode(): value.decode("latin-1") for name, value in answer.headers
            }
            if answer.status in _REDIRECTS and found.get("location"):
                return "", found["location"]
            if answer.status >= 400:
                raise ToolFailed(f"{host_of(url)} answered with status {answer.status}.")
            content = bytearray()
            async for chunk in answer.aiter_stream():
                content += chunk
                departure.received = len(content)
                if len(content) > _MOST_BYTES:
                    break
    return await asyncio.to_thread(_text, bytes(content[:_MOST_BYTES]), found), ""


def _text(content: bytes, headers: dict[str, str]) -> str:
    kind, _, parameters = headers.get("content-type", "text/html").lower().partition(";")
    kind = kind.strip()
    if not (kind.startswith("text/") or "json" in kind or "xml" in kind):
        raise ToolFailed(f"The page is {one_line(kind, 60)}, not text.")
    if headers.get("content-encoding", "identity") != "identity":
        raise ToolFailed("The page is compressed, though that was not asked for.")
    charset = parameters.partition("charset=")[2].strip(" \"';") or "utf-8"
    try:
        text = content.decode(charset, "replace")
    except LookupError:
        text = content.decode("utf-8", "replace")
    return page_text(text) if "html" in kind else text


def checked_url(url: str) -> str:
    """Return an address of the web in ASCII; raises `ToolFailed` for any other."""
    if len(url) > _MOST_OF_URL:
        raise ToolFailed(f"The address is longer than {_MOST_OF_URL} characters.")
    try:
        parts = urlsplit(url.strip())
        host, port = parts.hostname or "", parts.port
        host = host if ":" in host else host.encode("idna").decode()
    except (ValueError, UnicodeError) as error:
        raise ToolFailed("This is no address of a page.") from error
    if parts.scheme not in ("http", "https") or not host or parts.username is not None:
        raise ToolFailed("Only http and https addresses without a password can be fetched.")
    if (host.replace(".", "").isdigit() or ":" in host) and not is_public(host):
        raise ToolFailed(f"{host} is not a public address. Such pages are not fetched.")
    where = f"[{host}]" if ":" in host else host
    where = f"{where}:{port}" if port is not None else where
    path, query = (quote(part, safe=_SAFE) for part in (parts.path or "/", parts.query))
    return urlunsplit((parts.scheme, where, path, query, ""))


def host_of(url: str) -> str:
    """Return the host of a checked address."""
    return urlsplit(url).hostname or ""
