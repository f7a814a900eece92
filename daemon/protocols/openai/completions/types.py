"""Wire types of the answers of OpenAI's chat completions and completions."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from ...answer_values import PromptProgress, Timings, TokenLogprob

FinishWord = Literal["stop", "length", "tool_calls", "function_call"]
ServiceTier = Literal["default", "flex"]


class PromptTokensDetails(msgspec.Struct, frozen=True):
    """`cached_tokens` of the prompt were found in the KV cache."""

    cached_tokens: int


class CompletionTokensDetails(msgspec.Struct, frozen=True, kw_only=True):
    """Reasoning tokens, and draft tokens that were accepted and rejected."""

    reasoning_tokens: int
    accepted_prediction_tokens: int
    rejected_prediction_tokens: int


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens processed."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails
    completion_tokens_details: CompletionTokensDetails


class ChatLogprobs(msgspec.Struct, frozen=True):
    """Log-probabilities of the tokens of a chat's answer, or of a chunk."""

    content: list[TokenLogprob]
    refusal: None = None


class CompletionLogprobs(msgspec.Struct, frozen=True):
    """Log-probabilities of the tokens of a plain completion, in parallel lists.

    `text_offset` counts characters from the beginning of the choice's text. The first token of a
    prompt has no log-probability.
    """

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


class PromptTokenScore(msgspec.Struct, frozen=True):
    """vLLM's log-probability of one token; `rank` counts from 1, null beyond the alternatives."""

    logprob: float
    rank: int | None
    decoded_token: str


PromptLogprobs = list[dict[int, PromptTokenScore] | None]
"""For each token of a prompt its own score and those of its alternatives; none for the first."""


class AnsweredFunction(msgspec.Struct, frozen=True):
    """Which function is called; `arguments` is the text of a JSON object."""

    name: str
    arguments: str


class AnsweredCall(msgspec.Struct, frozen=True, kw_only=True):
    """A call in a whole answer."""

    id: str
    type: Literal["function"] = "function"
    function: AnsweredFunction


class AssistantMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A whole answer; `content` is null where there is nothing but calls."""

    role: Literal["assistant"] = "assistant"
    content: str | None
    refusal: None = None
    annotations: list[str] = []
    reasoning_content: str | UnsetType = UNSET
    tool_calls: list[AnsweredCall] | UnsetType = UNSET
    function_call: AnsweredFunction | UnsetType = UNSET


class ChatChoice(msgspec.Struct, frozen=True, kw_only=True):
    """One of `n` answers."""

    index: int
    message: AssistantMessage
    logprobs: ChatLogprobs | None = None
    finish_reason: FinishWord


class ChatCompletion(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a chat that is not streamed."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage
    system_fingerprint: str
    service_tier: ServiceTier | UnsetType = UNSET
    metadata: dict[str, str] | UnsetType = UNSET
    prompt_logprobs: PromptLogprobs | UnsetType = UNSET
    timings: Timings


class FunctionDelta(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a call in one chunk: first the name, then pieces of the arguments."""

    name: str | UnsetType = UNSET
    arguments: str


class ToolCallChunk(msgspec.Struct, frozen=True, kw_only=True):
    """One chunk's part of the call number `index`; `id` and `type` are in its first."""

    index: int
    id: str | UnsetType = UNSET
    type: Literal["function"] | UnsetType = UNSET
    function: FunctionDelta


class ChoiceDelta(msgspec.Struct, frozen=True, kw_only=True):
    """The part of an answer in one chunk."""

    role: Literal["assistant"] | UnsetType = UNSET
    content: str | UnsetType | None = UNSET
    reasoning_content: str | UnsetType = UNSET
    tool_calls: list[ToolCallChunk] | UnsetType = UNSET
    function_call: FunctionDelta | UnsetType = UNSET


class ChunkChoice(msgspec.Struct, frozen=True, kw_only=True):
    """One answer's part in a chunk."""

    index: int
    delta: ChoiceDelta
    logprobs: ChatLogprobs | None = None
    finish_reason: FinishWord | None = None


class ChatCompletionChunk(msgspec.Struct, frozen=True, kw_only=True):
    """One event of a streamed chat; `usage` is there only where it was asked for."""

    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    system_fingerprint: str
    choices: list[ChunkChoice]
    usage: Usage | UnsetType | None = UNSET
    service_tier: ServiceTier | UnsetType = UNSET
    timings: Timings | UnsetType = UNSET
    prompt_progress: PromptProgress | UnsetType = UNSET


class CompletionChoice(msgspec.Struct, frozen=True, kw_only=True):
    """One answer, or one chunk's addition to it."""

    index: int
    text: str
    logprobs: CompletionLogprobs | None = None
    finish_reason: FinishWord | None
    prompt_logprobs: PromptLogprobs | UnsetType = UNSET


class TextCompletion(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of `POST /v1/completions`, whole or one event of it."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage | UnsetType | None = UNSET
    system_fingerprint: str
    timings: Timings | UnsetType = UNSET
    prompt_progress: PromptProgress | UnsetType = UNSET
