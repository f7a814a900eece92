"""Which words an error is told in, by the path that was asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ..errors import AnthropicError, LlamaCppError, NativeError, OllamaError, OpenAIError, Problem

Shape = Callable[[Problem], msgspec.Struct]

# The first prefix that fits decides.
SHAPES: tuple[tuple[str, type[Any], Shape], ...] = (
    ("/v1/messages", AnthropicError, AnthropicError.of),
    ("/v1/", OpenAIError, Problem.openai),
    ("/api/v0/", OpenAIError, Problem.openai),
    ("/api/v1/", OpenAIError, Problem.openai),
    ("/api/", OllamaError, OllamaError.of),
    *(
        (path, LlamaCppError, LlamaCppError.of)
        for path in (
            "/infill",
            "/completion",
            "/tokenize",
            "/detokenize",
            "/apply-template",
            "/props",
            "/slots",
            "/rerank",
            "/embedding",
            "/models",
            "/lora-adapters",
        )
    ),
    ("", NativeError, Problem.native),
)


def error_type(path: str) -> type[Any]:
    """The type of every error at this path."""
    return next(kind for prefix, kind, _ in SHAPES if path.startswith(prefix))


def error_body(problem: Problem, path: str) -> msgspec.Struct:
    """The failure in the words of the path's protocol."""
    return next(shape for prefix, _, shape in SHAPES if path.startswith(prefix))(problem)
