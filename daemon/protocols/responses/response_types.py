"""The objects that the Responses API answers with."""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from .items import OutputItem
from .request_types import ReasoningOptions, ToolChoiceObject, ToolMode, Truncation

Status = Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"]


class InputTokensDetails(msgspec.Struct, frozen=True, kw_only=True):
    """Of the input `cached_tokens` were found in the KV cache; to write there costs nothing."""

    cached_tokens: int
    cache_write_tokens: int = 0


class OutputTokensDetails(msgspec.Struct, frozen=True):
    """Tokens of thought."""

    reasoning_tokens: int


class ResponseUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens really processed."""

    input_tokens: int
    input_tokens_details: InputTokensDetails
    output_tokens: int
    output_tokens_details: OutputTokensDetails
    total_tokens: int


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
    def of(cls, options: ReasoningOptions | None) -> ReasoningConfig:
        """What the request says."""
        asked = options or ReasoningOptions()
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


class ItemList(msgspec.Struct, frozen=True, kw_only=True):
    """One page of a response's input."""

    object: Literal["list"] = "list"
    data: list[Any]
    first_id: str
    last_id: str
    has_more: bool


class InputTokens(msgspec.Struct, frozen=True, kw_only=True):
    """How long a prompt would be."""

    object: Literal["response.input_tokens"] = "response.input_tokens"
    input_tokens: int


class DeletedResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A response that is no more."""

    id: str
    object: Literal["response"] = "response"
    deleted: Literal[True] = True
