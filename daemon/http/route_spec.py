"""One route of the API, described once: for the router, and for `GET /openapi.json`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

from starlette.requests import Request
from starlette.responses import Response

Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True)
class Parameter:
    """A query parameter or header a route reads."""

    name: str
    place: Literal["query", "header"]
    type: Any
    description: str


@dataclass(frozen=True)
class StreamSpec:
    """Server-sent events: the type of each event's data by its name, "" where it has none.

    `only_if` says when a route that also answers at once streams instead. Of another `media_type`
    each line is one JSON value.
    """

    events: dict[str, Any]
    only_if: str = ""
    media_type: str = "text/event-stream"


@dataclass(frozen=True)
class AlternativeResponse:
    """The shapes of the answer and of errors for requests that a header or a field tells apart."""

    response: Any
    error: Any


@dataclass(frozen=True, kw_only=True)
class RouteSpec:
    """Method, path, what goes in and out; `errors` are the statuses beside those all have."""

    method: Literal["GET", "HEAD", "POST", "DELETE"]
    path: str
    endpoint: Endpoint
    summary: str
    request: Any = None
    request_media: str = "application/json"
    body_optional: bool = False
    response: Any = None
    other_words: AlternativeResponse | None = None
    status: int = 200
    stream: StreamSpec | None = None
    parameters: tuple[Parameter, ...] = ()
    errors: tuple[int, ...] = ()
