"""Cache of token counts per message, with estimates for those not yet counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ingle.daemon.client.generation_types import TokenCounts

BYTES_PER_TOKEN = 4.0
"""Of UTF-8, as most tokenizers average; replaced by measured values."""
OVERHEAD = 5
"""Approximate tokens that a template puts around a message."""
MEASURED_FROM = 400
"""Bytes that must have been counted before their ratio is trusted."""

RequestMessage = Mapping[str, str]
_Key = tuple[str, str, str]


class TokenCountCache:
    """Token counts by model and message, independent of chat and branch."""

    def __init__(self) -> None:
        self._known: dict[_Key, int] = {}
        self._measured: dict[str, tuple[int, int]] = {}

    def note(self, model: str, messages: Sequence[RequestMessage], counts: TokenCounts) -> None:
        """Store the daemon's counts for these messages; raises `ValueError` for a mismatch."""
        for message, tokens in zip(messages, counts.messages, strict=True):
            key = _key(model, message)
            if key not in self._known:
                size, total = self._measured.get(model, (0, 0))
                text = len(key[2].encode())
                self._measured[model] = (size + text, total + max(1, tokens - OVERHEAD))
            self._known[key] = tokens

    def is_complete(self, model: str, messages: Sequence[RequestMessage]) -> bool:
        """Return whether all of these messages are counted."""
        return all(_key(model, message) in self._known for message in messages)

    def count(self, model: str, message: RequestMessage) -> tuple[int, bool]:
        """Return a message's tokens, and whether they are exact."""
        key = _key(model, message)
        known = self._known.get(key)
        if known is not None:
            return known, True
        return self.estimate(model, key[2]) + OVERHEAD, False

    def estimate(self, model: str, text: str) -> int:
        """Estimate the tokens of a text, by this model's measured ratio."""
        size, tokens = self._measured.get(model, (0, 0))
        ratio = size / tokens if size >= MEASURED_FROM else BYTES_PER_TOKEN
        return round(len(text.encode()) / ratio)


def _key(model: str, message: RequestMessage) -> _Key:
    return model, message.get("role", ""), message.get("content", "")
