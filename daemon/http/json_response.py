"""JSON answers, and errors in the shape that their path promises."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from starlette.responses import Response

from ..errors import AnthropicError, Problem
from .error_format import error_body


class JSONResponse(Response):
    """A msgspec value as the body."""

    media_type = "application/json"

    def __init__(
        self, value: object, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(msgspec.json.encode(value), status_code=status, headers=headers)


def error_response(problem: Problem, path: str, *, close: bool = False) -> JSONResponse:
    """The whole answer; with `close` the connection ends with it, and an unread body is dropped."""
    headers = {**problem.headers, **({"connection": "close"} if close else {})}
    body = error_body(problem, path)
    if isinstance(body, AnthropicError):
        headers["request-id"] = body.request_id
    return JSONResponse(body, problem.status, headers)
