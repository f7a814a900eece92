"""The objects that the Responses API answers with."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from .items import OutputItem
from .request_types import ReasoningRequest, ToolChoiceObject, ToolMode, Truncation

Status = Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]


class InputTokensDetails(msgspec.Struct, frozen=True, kw_only=True):
    """`cached_tokens` of the input were found in the KV cache."""

    cached_tokens: int
    cache_write_tokens: int = 0


class OutputTokensDetails(msgspec.Struct, frozen=True):
    """Tokens of reasoning."""

    reasoning_tokens: int


class ResponseUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens really processed."""

    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails
    total_tokens: int

    @classmethod
    def of(cls, *, prompt: int, cached: int, completion: int, reasoning: int) -> ResponseUsage:
        """The usage of these numbers of tokens."""
        return cls(
            input_tokens=prompt,
            input_tokens_details=InputTokensDetails(cached_tokens=cached),
            output_tokens=completion,
            output_tokens_details=OutputTokensDetails(reasoning),
            total_tokens=prompt + completion,
        )


class ResponseError(msgspec.Struct, frozen=True):
    """Why a response failed after it began."""

    code: str
    message: str


class IncompleteDetails(msgspec.Struct, frozen=True):
    """Why an answer breaks off."""

    reason: Literal["max_output_tokens"]


class TextConfig(msgspec.Struct, frozen=True):
    """What was asked for about the text."""

    format: msgspec.Raw
    verbosity: Literal["low", "medium", "high"]


class ReasoningConfig(msgspec.Struct, frozen=True):
    """What was asked for about thinking."""

    effort: str | None
    summary: str | None

    @classmethod
    def of(cls, options: ReasoningRequest | None) -> ReasoningConfig:
        """What the request says."""
        asked = options or ReasoningRequest()
        return cls(asked.effort, asked.summary or asked.generate_summary)


class IngleDetails(msgspec.Struct, frozen=True):
    """What OpenAI's shape has no words for: items that were left out, so that the rest fits."""

    dropped_messages: int


class Response(msgspec.Struct, frozen=True, kw_only=True):
    """One answer; `temperature` and `top_p` are those that were really used."""

    id: str
    object: Literal["response"] = "response"
    created_at: int
    status: Status
    background: bool
    completed_at: int | None = None
    error: ResponseError | None = None
    incomplete_details: IncompleteDetails | None = None
    instructions: str | None
    max_output_tokens: int | None
    max_tool_calls: int | None
    model: str
    output: list[OutputItem] = []
    parallel_tool_calls: bool
    previous_response_id: str | None
    prompt_cache_key: str | None
    reasoning: ReasoningConfig
    safety_identifier: str | None
    service_tier: Literal["default", "flex"]
    store: bool
    temperature: float
    text: TextConfig
    tool_choice: ToolMode | ToolChoiceObject
    tools: list[msgspec.Raw]
    top_logprobs: int
    top_p: float
    truncation: Truncation
    usage: ResponseUsage | None = None
    user: str | None
    metadata: dict[str, str]
    ingle: IngleDetails | UnsetType = UNSET


class InputTokens(msgspec.Struct, frozen=True, kw_only=True):
    """How long a prompt would be."""

    object: Literal["response.input_tokens"] = "response.input_tokens"
    input_tokens: int


class DeletedResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A response that is no more."""

    id: str
    object: Literal["response"] = "response"
    deleted: Literal[True] = True
