"""Turns a provider's error response into one sentence; the provider's own words are untrusted."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any, cast

import msgspec

from .errors import ProviderRefused, RemoteError
from .http_client import HttpResponse
from .providers import Provider

_LONGEST_BODY = 64 * 2**10
_LONGEST_QUOTE = 300

_SENTENCES = {
    401: ("does not accept the key", "`ingle provider key {name}` sets another."),
    402: ("asks for payment first", "Look at the account with the provider."),
    403: ("does not allow this", "Look at the account with the provider, and at the model's name."),
    404: ("knows no such model or address", "`ingle provider test {name}` tries both."),
    408: ("timed out waiting for the request", "Try again."),
    413: ("says the request is too large", "Shorten the conversation."),
    429: ("is limiting the rate of requests", "Try again later."),
}


async def refusal_from(
    answer: HttpResponse, provider: Provider, key: str | None
) -> ProviderRefused:
    """Return the error for a response with an error status."""
    body = b""
    try:
        async with aclosing(answer.chunks()) as chunks:
            async for chunk in chunks:
                body += chunk
                if len(body) >= _LONGEST_BODY:
                    break
    except RemoteError:
        body = b""  # the status says enough
    status = answer.status
    if 300 <= status < 400:
        return ProviderRefused(
            f"The provider '{provider.name}' redirects its requests, which is not followed.",
            status=status,
            hint="Set `base_url` to the address that it means.",
        )
    what, hint = _SENTENCES.get(status, (f"answered with status {status}", "Try again later."))
    return _refused(
        provider, what, _words(body), key, status=status, hint=hint.format(name=provider.name)
    )


def streamed_error(provider: Provider, error: ProviderRefused, key: str | None) -> ProviderRefused:
    """Return the error that a provider reported within a streamed answer."""
    what = "ended its answer with an error"
    return _refused(provider, what, error.message, key, status=error.status, hint="Try again.")


def _refused(
    provider: Provider, what: str, words: str, key: str | None, *, status: int, hint: str
) -> ProviderRefused:
    quote = _harmless(words, key)
    said = f": “{quote}”" if quote else ""
    sentence = f"The provider '{provider.name}' {what}{said}."
    return ProviderRefused(sentence, status=status, hint=hint)


def _harmless(words: str, key: str | None) -> str:
    """Return one printable line without the key, which some providers repeat."""
    if key:
        words = words.replace(key, "…")
    text = "".join(c if c.isprintable() else " " for c in words[: 4 * _LONGEST_QUOTE])
    text = " ".join(text.split()).rstrip(".")
    return text if len(text) <= _LONGEST_QUOTE else text[: _LONGEST_QUOTE - 1] + "…"


def _words(body: bytes) -> str:
    """Return the text at `error.message`, `error` or `message`; "" if there is none."""
    try:
        value: Any = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ""
    for name in ("error", "message"):
        if isinstance(value, dict):
            value = cast("dict[str, Any]", value).get(name, cast("object", value))
    return value if isinstance(value, str) else ""
