"""What every answer of OpenAI's routes says beside its text."""

from __future__ import annotations

import hashlib

from ingle.backends.base.events import FinishReason

from ...answer_builder import AnswerBuilder
from .types import CompletionTokensDetails, FinishWord, PromptTokensDetails, Usage


def usage_of(collected: AnswerBuilder, *, written: int | None = None) -> Usage:
    """The tokens of a whole job; `written` is how many there are so far, where it goes on."""
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


def finish_word(reason: FinishReason) -> FinishWord:
    """OpenAI's word; it has none for an answer that was cancelled."""
    match reason:
        case FinishReason.LENGTH:
            return "length"
        case FinishReason.TOOL_CALLS:
            return "tool_calls"
        case FinishReason.STOP | FinishReason.CANCELLED:
            return "stop"


def fingerprint(collected: AnswerBuilder) -> str:
    """Changes with everything that may change the answer to the same seed."""
    model, info = collected.model, collected.info
    parts = (model.name, model.sha256, info.engine, info.device, info.context, info.slots)
    return "fp_" + hashlib.sha256(repr(parts).encode()).hexdigest()[:10]
