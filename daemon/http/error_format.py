"""The bodies of errors in the formats of the APIs that the daemon serves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from ..errors import AnthropicError, LlamaCppError, NativeError, OllamaError, OpenAIError, Problem


@dataclass(frozen=True)
class ErrorFormat:
    """The type of an API's error bodies, and the function that builds one."""

    type: type[msgspec.Struct]
    body: Callable[[Problem], msgspec.Struct]


NATIVE = ErrorFormat(NativeError, Problem.native)
OPENAI = ErrorFormat(OpenAIError, Problem.openai)
ANTHROPIC = ErrorFormat(AnthropicError, AnthropicError.of)
OLLAMA = ErrorFormat(OllamaError, OllamaError.of)
LLAMA_CPP = ErrorFormat(LlamaCppError, LlamaCppError.of)
