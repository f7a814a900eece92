"""Values that the answers of several protocols have: log-probabilities, timings, vectors."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from ingle.backends.base.events import Embedded, Finished, PromptAdvanced, TokenLogprobs


class TokenAlternative(msgspec.Struct, frozen=True):
    """A token, the natural logarithm of its probability, and its bytes, which may be no text."""

    token: str
    logprob: float
    bytes: list[int]


class TokenLogprob(TokenAlternative, frozen=True):
    """A token of the answer, and the most probable ones at its position."""

    top_logprobs: list[TokenAlternative]


def token_logprobs(
    tokens: Iterable[TokenLogprobs], token_bytes: Mapping[int, bytes] | None
) -> list[TokenLogprob]:
    """The log-probabilities of an answer's tokens, whose bytes `token_bytes` has by token id."""
    spelled = token_bytes or {}
    return [
        TokenLogprob(
            *_spell(token.token_id, token.logprob, spelled),
            [TokenAlternative(*_spell(other, logprob, spelled)) for other, logprob in token.top],
        )
        for token in tokens
    ]


def _spell(
    token_id: int, logprob: float, spelled: Mapping[int, bytes]
) -> tuple[str, float, list[int]]:
    data = spelled.get(token_id, b"")
    return data.decode(errors="replace"), logprob, list(data)


class PromptProgress(msgspec.Struct, frozen=True):
    """How far a prompt is read, in tokens: `processed` of `total`, of which `cache` were cached."""

    total: int
    cache: int
    processed: int
    time_ms: int

    @classmethod
    def of(cls, event: PromptAdvanced) -> PromptProgress:
        """Return the progress that an event reports."""
        milliseconds = round(1000 * event.seconds)
        return cls(event.prompt_tokens, event.cached_tokens, event.computed_tokens, milliseconds)


class Timings(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens and milliseconds: `cache_n` prompt tokens were cached, `prompt_n` were computed."""

    cache_n: int
    prompt_n: int
    prompt_ms: float
    prompt_per_token_ms: float
    prompt_per_second: float
    predicted_n: int
    predicted_ms: float
    predicted_per_token_ms: float
    predicted_per_second: float
    draft_n: int | UnsetType = UNSET
    draft_n_accepted: int | UnsetType = UNSET


def timings(prompt: tuple[int, int], end: Finished, *, timed: int | None = None) -> Timings:
    """The timings of an answer to a prompt of so many tokens, so many of them cached.

    `timed` tokens were decoded in the `decode_seconds` of its end; by default all of them.
    """
    tokens, cached = prompt
    computed = tokens - cached
    timed = end.completion_tokens if timed is None else timed
    return Timings(
        cache_n=cached,
        prompt_n=computed,
        prompt_ms=_ratio(1000 * end.prompt_seconds, 1),
        prompt_per_token_ms=_ratio(1000 * end.prompt_seconds, computed),
        prompt_per_second=_ratio(computed, end.prompt_seconds),
        predicted_n=end.completion_tokens,
        predicted_ms=_ratio(1000 * end.decode_seconds, 1),
        predicted_per_token_ms=_ratio(1000 * end.decode_seconds, timed),
        predicted_per_second=_ratio(timed, end.decode_seconds),
        draft_n=end.drafted_tokens or UNSET,
        draft_n_accepted=end.accepted_tokens if end.drafted_tokens else UNSET,
    )


def _ratio(dividend: float, divisor: float) -> float:
    return round(dividend / divisor, 3) if divisor else 0.0


_ROWS_A_TURN = 64


async def vector_rows(embedded: Embedded, *, as_base64: bool = False) -> list[Any]:
    """One value for each vector: encoded JSON, or base64 of float32 in little-endian order.

    Encoding a large answer in one piece would block the event loop, so it runs between rows.
    """
    size = embedded.dimensions * 4
    rows: list[Any] = []
    for start in range(0, len(embedded.vectors), size):
        row = embedded.vectors[start : start + size]
        numbers: Any = memoryview(row).cast("f").tolist()
        rows.append(
            b64encode(row).decode() if as_base64 else msgspec.Raw(msgspec.json.encode(numbers))
        )
        if len(rows) % _ROWS_A_TURN == 0:
            await asyncio.sleep(0)
    return rows
