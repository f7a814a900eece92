"""The bodies of errors in the formats of the APIs that the daemon serves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

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
