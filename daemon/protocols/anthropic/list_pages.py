"""Pages of lists, as Anthropic's API cuts them, and its dates."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Generic, Protocol, TypeVar

import msgspec
from starlette.requests import Request

from ...errors import InvalidBody
from ...http.route_spec import Parameter

PAGING = (
    Parameter("limit", "query", str, "Of Anthropic's clients: the most entries, 1 to 1000."),
    Parameter("after_id", "query", str, "Of Anthropic's clients: those behind this one."),
    Parameter("before_id", "query", str, "Of Anthropic's clients: those in front of this one."),
)
PAGE = 20
LARGEST_PAGE = 1000


class Identified(Protocol):
    """An entry of a list."""

    @property
    def id(self) -> str:
        """Its id."""
        ...


Entry = TypeVar("Entry", bound=Identified)


class AnthropicPage(msgspec.Struct, Generic[Entry], frozen=True, kw_only=True):
    """A page of a list."""

    data: list[Entry]
    has_more: bool
    first_id: str | None
    last_id: str | None


def anthropic_page(entries: list[Entry], request: Request) -> AnthropicPage[Entry]:
    """The page that the request asks for; raises `InvalidBody`."""
    limit = _limit(request.query_params.get("limit"))
    after, before = (request.query_params.get(name) for name in ("after_id", "before_id"))
    if after:
        entries = entries[_place(entries, after, "after_id") + 1 :]
    if before:
        entries = entries[: _place(entries, before, "before_id")]
    page = entries[:limit] if after or not before else entries[-limit:]
    return AnthropicPage(
        data=page,
        has_more=len(entries) > len(page),
        first_id=page[0].id if page else None,
        last_id=page[-1].id if page else None,
    )


def date_time(seconds: int) -> str:
    """The time in Anthropic's format; `seconds` since 1970."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _limit(text: str | None) -> int:
    if not text:
        return PAGE
    if text.isascii() and text.isdigit() and len(text) < 5 and 1 <= int(text) <= LARGEST_PAGE:
        return int(text)
    raise InvalidBody(f"'limit' must be between 1 and {LARGEST_PAGE}.", param="limit")


def _place(entries: list[Entry], name: str, param: str) -> int:
    for place, entry in enumerate(entries):
        if entry.id == name:
            return place
    raise InvalidBody(f"'{param}' is {name[:80]!r}, which is not in this list.", param=param)
