"""How long an answer took, in llama-server's fields, which editors show."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType


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


def timings(
    *,
    prompt: int,
    cached: int,
    prompt_seconds: float,
    predicted: int,
    timed: int,
    decode_seconds: float,
    drafted: int,
    accepted: int,
) -> Timings:
    """Timings from token counts and seconds; `timed` tokens were decoded in `decode_seconds`."""
    computed = prompt - cached
    return Timings(
        cache_n=cached,
        prompt_n=computed,
        prompt_ms=_ratio(1000 * prompt_seconds, 1),
        prompt_per_token_ms=_ratio(1000 * prompt_seconds, computed),
        prompt_per_second=_ratio(computed, prompt_seconds),
        predicted_n=predicted,
        predicted_ms=_ratio(1000 * decode_seconds, 1),
        predicted_per_token_ms=_ratio(1000 * decode_seconds, timed),
        predicted_per_second=_ratio(timed, decode_seconds),
        draft_n=drafted or UNSET,
        draft_n_accepted=accepted if drafted else UNSET,
    )


def _ratio(dividend: float, divisor: float) -> float:
    return round(dividend / divisor, 3) if divisor else 0.0
