"""Declares routes beside their handlers, and finds them by method and path.

The router, the check of API keys and `GET /openapi.json` are made from these declarations.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cache
from typing import Any, Literal, TypeVar, get_type_hints

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import compile_path

from .bodies import (
    IGNORED,
    NATIVE,
    ErrorFormat,
    JSONResponse,
    read_json,
    run_until_disconnect,
)
from .field_policy import ignored_header
from .route_access import RouteAccess

Endpoint = Callable[[Request], Awaitable[Response]]
Handler = TypeVar("Handler", bound=Callable[..., Awaitable[object]])

GENERATION_ERRORS = (404, 408, 413, 422, 429, 500, 503, 507)
"""Statuses of errors that a request to a generating model may end with."""

IGNORED_HEADER = "ingle-ignored"
"""The response header that names the fields of the request's body that have no effect."""

_MOST_PARTS = 16
"""Parts of a path, from its start, that a wrong base URL may consist of."""

DECLARED = "declared_routes"
"""The attribute of a handler that holds its routes."""


class Parameter(msgspec.Struct, frozen=True):
    """A query parameter or header that a route reads."""

    name: str
    place: Literal["query", "header"]
    type: Any
    description: str


class StreamSpec(msgspec.Struct, frozen=True):
    """A streamed answer: the type of each server-sent event's data by event name ("" = unnamed).

    `only_if` is the condition under which a route streams that can also answer at once. For a
    `media_type` other than server-sent events, each line is one JSON value.
    """

    events: dict[str, Any]
    only_if: str = ""
    media_type: str = "text/event-stream"


class AlternativeResponse(msgspec.Struct, frozen=True):
    """Types of the answer and of errors if a header or field of the request selects them."""

    response: Any
    error: Any


async def _unbound(request: Request) -> Response:
    raise RuntimeError("`routes_of` binds the handler.")


@dataclass(frozen=True)
class RouteSpec:
    """One method and path: what it takes, returns and requires; a decorator of its handler.

    A handler takes any of `request`, `body` and the parameters of the path, by these names, and
    returns a `Response` or a value to encode as JSON. The annotations of `body` and of the value
    are `request` and `response`, which only other handlers set. `errors` are statuses in addition
    to those of all routes. `routes_of` sets `endpoint` and `summary`, the first paragraph of the
    handler's docstring; of a WebSocket, `socket_endpoint`.
    """

    method: Literal["GET", "HEAD", "POST", "DELETE"]
    path: str
    _: KW_ONLY
    other_paths: tuple[str, ...] = ()
    """Paths that other servers have for the same."""

    access: RouteAccess
    error_format: ErrorFormat
    request: Any = None
    request_media: str = "application/json"
    body_optional: bool = False
    web_socket: bool = False
    """Whether it is the handshake of a WebSocket, which the handler gets as `socket`."""

    upload: bool = False
    """Whether the body is written to a file as it arrives; `max_upload_bytes` limits it."""

    cancellable: bool = False
    """Whether the handler is cancelled when the client disconnects."""

    response: Any = None
    alternative: AlternativeResponse | None = None
    status: int = 200
    stream: StreamSpec | None = None
    parameters: tuple[Parameter, ...] = ()
    errors: tuple[int, ...] = ()
    endpoint: Endpoint = _unbound
    socket_endpoint: Callable[..., Awaitable[object]] | None = None
    summary: str = ""

    def __call__(self, handler: Handler) -> Handler:
        """Declare the decorated method of an API class as this route's handler."""
        setattr(handler, DECLARED, (self, *getattr(handler, DECLARED, ())))
        return handler


route = RouteSpec


def routes_of(api: object) -> list[RouteSpec]:
    """All routes declared on methods of `api`'s class, in order, bound to `api`."""
    return [
        replace(_bound(spec, handler, getattr(api, name)), path=path, other_paths=())
        for name, handler in vars(type(api)).items()
        for spec in getattr(handler, DECLARED, ())
        for path in (spec.path, *spec.other_paths)
    ]


def _bound(
    spec: RouteSpec, handler: Callable[..., object], method: Callable[..., Awaitable[object]]
) -> RouteSpec:
    """The route with the endpoint that calls `method`, and the types of the handler's signature."""
    hints = _hints(handler)
    if spec.web_socket:
        return replace(spec, socket_endpoint=method, summary=_summary(handler))
    body_type, answer_type = hints.get("body"), hints["return"]
    has_response = isinstance(answer_type, type) and issubclass(answer_type, Response)

    async def endpoint(request: Request) -> Response:
        arguments = {name: value for name, value in request.path_params.items() if name in hints}
        if "request" in hints:
            arguments["request"] = request
        if body_type is not None:
            if_empty = b"{}" if spec.body_optional else b""
            arguments["body"] = await read_json(request, body_type, if_empty=if_empty)
        answer = method(**arguments)
        if spec.cancellable:
            answer = run_until_disconnect(request.receive, answer)
        answer = await answer
        response = answer if isinstance(answer, Response) else JSONResponse(answer, spec.status)
        if ignored := request.scope.get(IGNORED):
            response.headers[IGNORED_HEADER] = ignored_header(ignored)
        return response

    return replace(
        spec,
        request=body_type or spec.request,
        response=spec.response if has_response else answer_type,
        endpoint=endpoint,
        summary=_summary(handler),
    )


@cache
def _hints(handler: Callable[..., object]) -> dict[str, Any]:
    return get_type_hints(handler, include_extras=True)


def _summary(handler: object) -> str:
    paragraph = (handler.__doc__ or "").partition("\n\n")[0]
    return " ".join(paragraph.split())


class RouteIndex:
    """All routes of the daemon by method and path, and the error formats of other paths."""

    def __init__(self, routes: Sequence[RouteSpec]) -> None:
        self._exact: dict[tuple[str, str], RouteSpec] = {}
        self._patterns: list[tuple[re.Pattern[str], RouteSpec]] = []
        formats: dict[str, Counter[ErrorFormat]] = {}
        for route in routes:
            if "{" in route.path:
                self._patterns.append((compile_path(route.path)[0], route))
            else:
                self._exact[route.method, route.path] = route
            for folder in _folders(route.path):
                formats.setdefault(folder, Counter())[route.error_format] += 1
        self._formats = {folder: uses.most_common(1)[0][0] for folder, uses in formats.items()}

    def find(self, method: str, path: str) -> RouteSpec | None:
        """The route that serves this request; a GET route serves HEAD, too."""
        for name in (method, "GET") if method == "HEAD" else (method,):
            if exact := self._exact.get((name, path)):
                return exact
            for pattern, route in self._patterns:
                if route.method == name and pattern.match(path):
                    return route
        return None

    def intended_path(self, method: str, path: str) -> str:
        """The path that a client means whose base URL is nearly right, else `path` itself.

        `/openai/v1/models`, `/v1/v1/models`, `//v1/models/` and `/v1/chat/completions/v1/models`
        mean `/v1/models`: the longest end of the path that is a route of another server's API.
        """
        bare = path.rstrip("/") or "/"
        if (method, bare) in self._exact:
            return bare
        if self.find(method, path):
            return path
        parts = [part for part in path.split("/") if part]
        for start in range(min(len(parts), _MOST_PARTS)):
            end = "/" + "/".join(parts[start:])
            route = self.find(method, end)
            if route is not None and (not start or route.error_format is not NATIVE):
                return end
        return path

    def error_format(self, method: str, path: str) -> ErrorFormat:
        """The format of this request's errors, also if no route serves it.

        A path without a route has the format of most routes in the same folder, or in the
        closest one above that has routes.
        """
        for name in (method, "GET", "POST", "DELETE", "HEAD"):
            if route := self.find(name, path):
                return route.error_format
        return next((self._formats[f] for f in _folders(path) if f in self._formats), NATIVE)


def _folders(path: str) -> Iterator[str]:
    """The folders of a path, longest first, without the root: `/v1/chat/`, `/v1/`."""
    for end in range(len(path), 1, -1):
        if path[end - 1] == "/":
            yield path[:end]
