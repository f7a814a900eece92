"""From a model's answer to Anthropic's message."""

from __future__ import annotations

import hashlib

import msgspec

from ingle.backends.base.events import FinishReason

from ..answer_builder import AnswerBuilder
from .types import (
    Message,
    OutputBlock,
    OutputTokensDetails,
    StopReason,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    Usage,
)


def message(collected: AnswerBuilder, *, shows_thoughts: bool = True) -> Message:
    """The whole answer: thoughts, text, calls."""
    (answer,) = collected.answers
    content: list[OutputBlock] = []
    if answer.reasoning:
        thoughts = "".join(answer.reasoning) if shows_thoughts else ""
        content.append(ThinkingBlock(thoughts, signature(collected.job.id)))
    if text := "".join(answer.text):
        content.append(TextBlock(text))
    for call in answer.calls:
        arguments = msgspec.Raw(call.arguments.encode() or b"{}")
        content.append(ToolUseBlock(tool_use_id(call.id), call.name, arguments))
    reason, stop = stop_reason(collected)
    return envelope(collected, content, reason, stop)


def envelope(
    collected: AnswerBuilder,
    content: list[OutputBlock],
    reason: StopReason | None = None,
    stop: str | None = None,
) -> Message:
    """A message with this content and what is counted so far."""
    return Message(
        id=collected.job.id,
        model=collected.model.name,
        content=content,
        stop_reason=reason,
        stop_sequence=stop,
        usage=usage(collected),
    )


def usage(collected: AnswerBuilder) -> Usage:
    """The tokens; Anthropic counts those read from a cache apart from the others."""
    return Usage(
        input_tokens=collected.prompt_tokens - collected.cached_tokens,
        cache_read_input_tokens=collected.cached_tokens,
        output_tokens=collected.completion_tokens,
        output_tokens_details=OutputTokensDetails(collected.reasoning_tokens),
        service_tier="standard",
    )


def stop_reason(collected: AnswerBuilder) -> tuple[StopReason, str | None]:
    """Why the answer ended, and the stop sequence that ended it."""
    (answer,) = collected.answers
    match answer.reason:
        case FinishReason.TOOL_CALLS:
            return "tool_use", None
        case FinishReason.LENGTH:
            used = collected.prompt_tokens + collected.completion_tokens
            asked = collected.job.request.max_tokens or 0
            is_full = used >= collected.info.context and collected.completion_tokens < asked
            return ("model_context_window_exceeded" if is_full else "max_tokens"), None
        case FinishReason.STOP | FinishReason.CANCELLED:
            stop = answer.finished.stop if answer.finished is not None else None
            return ("end_turn" if stop is None else "stop_sequence"), stop


def tool_use_id(call_id: str) -> str:
    """The id of a call in Anthropic's spelling."""
    return f"toolu_{call_id.removeprefix('call_')}"


def signature(message_id: str) -> str:
    """What clients send back with a thought; nothing is read from it."""
    return hashlib.sha256(message_id.encode()).hexdigest()
