"""How long an answer took, in llama-server's words, which editors show."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET, UnsetType

if TYPE_CHECKING:
    from ...answer_builder import AnswerBuilder


class Timings(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens and milliseconds: `cache_n` of the prompt were known, `prompt_n` were computed."""

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


def timings_of(collected: AnswerBuilder) -> Timings:
    """Those of a whole job; of several sequences the longest counts, for they run side by side."""
    reading = max((end.prompt_seconds for end in collected.ended), default=0.0)
    writing = max((end.decode_seconds for end in collected.ended), default=0.0)
    read = collected.prompt_tokens - collected.cached_tokens
    written = collected.completion_tokens
    drafted = collected.drafted_tokens
    # Writing is timed from each sequence's first token on, which therefore does not count.
    timed = max(0, written - len(collected.ended))
    return Timings(
        cache_n=collected.cached_tokens,
        prompt_n=read,
        prompt_ms=_milliseconds(reading),
        prompt_per_token_ms=_milliseconds(_ratio(reading, read)),
        prompt_per_second=round(_ratio(read, reading), 3),
        predicted_n=written,
        predicted_ms=_milliseconds(writing),
        predicted_per_token_ms=_milliseconds(_ratio(writing, timed)),
        predicted_per_second=round(_ratio(timed, writing), 3),
        draft_n=drafted or UNSET,
        draft_n_accepted=collected.accepted_tokens if drafted else UNSET,
    )


def _milliseconds(seconds: float) -> float:
    return round(seconds * 1000, 3)


def _ratio(above: float, below: float) -> float:
    return above / below if below else 0.0
