"""The fields that all answers of OpenAI's completions have: usage, timings, logprobs, names."""

from __future__ import annotations

import codecs
import hashlib
from typing import Any

from ingle.backends.base.events import Delta, FinishReason

from ...answer_builder import AnswerBuilder
from ...timings import Timings, timings
from ...token_logprobs import token_logprobs
from .types import (
    ChatLogprobs,
    CompletionLogprobs,
    CompletionTokensDetails,
    FinishWord,
    PromptTokensDetails,
    Usage,
)

FINISH_WORDS: dict[FinishReason, FinishWord] = {
    FinishReason.LENGTH: "length",
    FinishReason.TOOL_CALLS: "tool_calls",
    FinishReason.STOP: "stop",
    FinishReason.CANCELLED: "stop",
}
"""OpenAI has no word for an answer that was cancelled."""

_new_decoder = codecs.getincrementaldecoder("utf-8")


def envelope(collected: AnswerBuilder) -> dict[str, Any]:
    """The fields that are the same in an answer and in all its chunks."""
    return {
        "id": collected.job.id,
        "created": collected.created,
        "model": collected.model.name,
        "system_fingerprint": fingerprint(collected),
    }


def fingerprint(collected: AnswerBuilder) -> str:
    """A digest of everything that can change the answer to the same seed."""
    model, info = collected.model, collected.info
    parts = (model.name, model.sha256, info.engine, info.device, info.context, info.slots)
    return "fp_" + hashlib.sha256(repr(parts).encode()).hexdigest()[:10]


def usage_of(collected: AnswerBuilder, *, written: int | None = None) -> Usage:
    """The tokens of a whole job; `written` is the number so far while it is decoding."""
    prompt = collected.prompt_tokens
    completion = collected.completion_tokens if written is None else written
    drafted, accepted = collected.drafted_tokens, collected.accepted_tokens
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        total_tokens=prompt + completion,
        prompt_tokens_details=PromptTokensDetails(collected.cached_tokens),
        completion_tokens_details=CompletionTokensDetails(
            reasoning_tokens=collected.reasoning_tokens,
            accepted_prediction_tokens=accepted,
            rejected_prediction_tokens=drafted - accepted,
        ),
    )


def timings_of(collected: AnswerBuilder) -> Timings:
    """Timings of a whole job; the longest of its sequences counts, since they run concurrently."""
    written = collected.completion_tokens
    return timings(
        prompt=collected.prompt_tokens,
        cached=collected.cached_tokens,
        prompt_seconds=max((end.prompt_seconds for end in collected.ended), default=0.0),
        predicted=written,
        # Decoding is timed from each sequence's first token on, which therefore does not count.
        timed=max(0, written - len(collected.ended)),
        decode_seconds=max((end.decode_seconds for end in collected.ended), default=0.0),
        drafted=collected.drafted_tokens,
        accepted=collected.accepted_tokens,
    )


def chat_logprobs(delta: Delta) -> ChatLogprobs | None:
    """The log-probabilities of a chat's chunk; None if the request asked for none."""
    if delta.logprobs is None:
        return None
    return ChatLogprobs(token_logprobs(delta.logprobs, delta.token_bytes))


class CompletionScores:
    """The log-probabilities of one choice of a plain completion."""

    def __init__(self) -> None:
        self._decoder = _new_decoder(errors="replace")
        self._offset = 0
        self.whole = CompletionLogprobs([], [], [], [])
        """Those of all chunks so far."""

    def take(self, delta: Delta) -> CompletionLogprobs | None:
        """The log-probabilities of a chunk; None if the request asked for none."""
        if delta.logprobs is None:
            return None
        part = CompletionLogprobs([], [], [], [])
        for token in token_logprobs(delta.logprobs, delta.token_bytes):
            part.tokens.append(token.token)
            part.token_logprobs.append(token.logprob)
            # The token itself is always present. Of two tokens with one text the likelier counts.
            scores = {token.token: token.logprob}
            for other in token.top_logprobs:
                scores.setdefault(other.token, other.logprob)
            part.top_logprobs.append(scores)
            part.text_offset.append(self._offset)
            self._offset += len(self._decoder.decode(bytes(token.bytes)))
        for name in part.__struct_fields__:
            getattr(self.whole, name).extend(getattr(part, name))
        return part
