"""The tool that fetches a page of the web."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Annotated
from urllib.parse import urljoin

import msgspec
from msgspec import Meta

from ..client.tool_types import ToolInfo
from ..documents.page_text import page_text
from ..web.web_address import checked_url, host_of
from ..web.web_errors import WebFailed
from .departures import Departures
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

_MOST_REDIRECTS = 5
_MOST_BYTES = 2 * 2**20
_ACCEPT = "text/html, text/plain, application/json"
_CHARSETS = (
    *("utf-8", "utf8", "utf-16", "us-ascii", "iso-8859-", "latin", "windows-", "shift_jis"),
    *("euc-", "gb", "big5", "koi8-"),
)
_SECONDS = 30.0


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
        url = _checked(read_arguments(arguments, FetchArguments).url)
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
                    url = _checked(urljoin(url, location))
                    if host_of(url) != origin:
                        raise ToolFailed(f"The page moved to {url}. Fetch that if it is needed.")
                else:
                    raise ToolFailed("The page redirects too often.")
        except TimeoutError as error:
            raise ToolFailed(f"{origin} took longer than {_SECONDS:.0f} s.") from error
        return ToolOutcome(bounded(page), f"{origin} ({len(page)} characters)")

    async def _get(self, url: str) -> tuple[str, str]:
        from ..web.web_client import get  # its imports take long

        departure = await self._departures.begin("fetch_page", host_of(url))
        outcome = "failed"
        try:
            answer = await get(url, departure, accept=_ACCEPT, most_bytes=_MOST_BYTES)
            outcome = "complete"
        except WebFailed as error:
            raise ToolFailed(one_line(str(error))) from error
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        finally:
            await asyncio.shield(departure.settle(outcome))
        if answer.location:
            return "", answer.location
        content = answer.content[:_MOST_BYTES]
        return await asyncio.to_thread(_text, content, answer.headers), ""


def _checked(url: str) -> str:
    try:
        return checked_url(url)
    except WebFailed as error:
        raise ToolFailed(str(error)) from error


def _text(content: bytes, headers: dict[str, str]) -> str:
    kind, _, parameters = headers.get("content-type", "text/html").lower().partition(";")
    kind = kind.strip()
    if not (kind.startswith("text/") or "json" in kind or "xml" in kind):
        raise ToolFailed(f"The page is {one_line(kind, 60)}, not text.")
    if headers.get("content-encoding", "identity") != "identity":
        raise ToolFailed("The page is compressed, though that was not asked for.")
    charset = parameters.partition("charset=")[2].strip(" \"';")
    try:
        known = charset.startswith(_CHARSETS)
        text = content.decode(charset if known else "utf-8", "replace")
    except LookupError:
        text = content.decode("utf-8", "replace")
    return page_text(text) if "html" in kind else text
