"""JSON responses, and errors in the formats of the APIs that the daemon serves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec
from starlette.responses import Response

from ..error_status import describe
from ..errors import AnthropicError, LlamaCppError, NativeError, OllamaError, OpenAIError, Problem
from .sse_writer import encode_event


@dataclass(frozen=True)
class ErrorFormat:
    """The type of an API's error bodies, and the function that builds one."""

    type: type[msgspec.Struct]
    body: Callable[[Problem], msgspec.Struct]
    event: str | None = None
    """The name of the server-sent event that reports an error; None if events have no names."""

    def frame(self, error: Exception) -> bytes:
        """The server-sent event that reports `error`."""
        return encode_event(msgspec.json.encode(self.body(describe(error))), event=self.event)


NATIVE = ErrorFormat(NativeError, Problem.native, "error")
OPENAI = ErrorFormat(OpenAIError, Problem.openai)
ANTHROPIC = ErrorFormat(AnthropicError, AnthropicError.of, "error")
OLLAMA = ErrorFormat(OllamaError, OllamaError.of)
LLAMA_CPP = ErrorFormat(LlamaCppError, LlamaCppError.of)


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
