"""JSON responses, and error responses in a route's error format."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from starlette.responses import Response

from ..errors import AnthropicError, Problem
from .error_format import ErrorFormat


class JSONResponse(Response):
    """A response whose body is a value encoded by msgspec."""

    media_type = "application/json"

    def __init__(
        self, value: object, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(msgspec.json.encode(value), status_code=status, headers=headers)


def error_response(
    problem: Problem, error_format: ErrorFormat, *, close: bool = False
) -> JSONResponse:
    """The response for a failure; `close` ends the connection and drops an unread body."""
    headers = {**problem.headers, **({"connection": "close"} if close else {})}
    body = error_format.body(problem)
    if isinstance(body, AnthropicError):
        headers["request-id"] = body.request_id
    return JSONResponse(body, problem.status, headers)
