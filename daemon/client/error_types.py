"""Types of errors in the native API."""

from __future__ import annotations

from typing import cast

import msgspec

from .answer import Answer


class ErrorDetail(Answer, frozen=True):
    """An error: a stable code for programs, a message in one sentence, and maybe a hint."""

    code: str
    message: str
    hint: str | None = None


class NativeError(Answer, frozen=True):
    """The body of every error that is not OpenAI's."""

    error: ErrorDetail


def read_error(content: bytes | str, status: int = 0) -> ErrorDetail:
    """Return the error in a response's body or an `error` event; tolerates bodies of any shape."""
    try:
        body: object = msgspec.json.decode(content)
    except msgspec.DecodeError:
        body = None
    reported = _fields(body).get("error")
    # Routes of Ollama report a sentence.
    error = {"message": reported} if isinstance(reported, str) else _fields(reported)
    hint = error.get("hint")
    return ErrorDetail(
        code=str(error.get("code") or "error"),
        message=str(error.get("message") or f"The daemon answered with HTTP status {status}."),
        hint=str(hint) if hint else None,
    )


def _fields(value: object) -> dict[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}
